"""Whether anybody would be told of an alert, in sentences: a page that shows one wakes nobody.
Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controlplane.api.alert_views import HeardView
from controlplane.api.alerting_views import AlertingView, NotifierView
from controlplane.api.quantities import age


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """One sentence, without its full stop."""

    text: str
    is_trouble: bool


def who_hears(alerting: AlertingView, heard: Sequence[HeardView]) -> list[Hearing]:
    """Troubles first. `heard`: sources of alerts besides the control plane's own evaluation."""
    said = [*_own(alerting), *_others(heard)]
    if not (alerting.is_on and alerting.notifiers) and not heard:
        said.append(
            Hearing(
                text="Nobody is told of an alert: no notifier is configured, and no Alertmanager "
                "was heard",
                is_trouble=True,
            )
        )
    return sorted(said, key=lambda each: not each.is_trouble)


def _own(alerting: AlertingView) -> Iterator[Hearing]:
    if not alerting.is_on:
        yield Hearing(text="The control plane's own evaluation is off", is_trouble=False)
        return
    if alerting.error is not None:
        yield Hearing(text=f"The last evaluation failed: {alerting.error}", is_trouble=True)
    elif alerting.is_overdue:
        ago = age(alerting.evaluated_seconds_ago or 0.0)
        text = f"The last evaluation was {ago} ago, and the one under way does not end"
        yield Hearing(text=text, is_trouble=True)
    for each in alerting.notifiers:
        fares = ", ".join(_fares(each, alerting.as_of_unix_ns))
        if each.error is None:
            yield Hearing(text=f"{each.name} tells people of alerts: {fares}", is_trouble=False)
        else:
            text = f"Notifier {each.name} failed: {each.error} ({fares})"
            yield Hearing(text=text, is_trouble=True)


def _fares(notifier: NotifierView, now_unix_ns: int) -> Iterator[str]:
    """Since the control plane started."""
    if notifier.told_at_unix_ns is None:
        yield "nothing told yet"
    else:
        yield f"last told {age((now_unix_ns - notifier.told_at_unix_ns) / 1e9)} ago"
    if notifier.num_failed:
        attempts = "attempt" if notifier.num_failed == 1 else "attempts"
        yield f"{notifier.num_failed} {attempts} failed"
    if notifier.num_due:
        yield f"{notifier.num_due} due"


def _others(heard: Sequence[HeardView]) -> Iterator[Hearing]:
    for each in heard:
        text = f"{each.source.capitalize()}: {each.what}"
        yield Hearing(text=text, is_trouble=each.state != "well")
