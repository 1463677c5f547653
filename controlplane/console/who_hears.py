"""Whether anybody would be told of an alert, in sentences: a page that shows one wakes nobody.
Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controlplane.api.alert_views import HeardView
from controlplane.api.alerting_views import AlertingView
from controlplane.console.formatting import age


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
        ago = age(alerting.evaluated_seconds_ago)
        text = f"The last evaluation was {ago} ago, and the one under way does not end"
        yield Hearing(text=text, is_trouble=True)
    failing = [each for each in alerting.notifiers if each.error is not None]
    for each in failing:
        yield Hearing(text=f"Notifier {each.name} failed: {each.error}", is_trouble=True)
    well = [each.name for each in alerting.notifiers if each.error is None]
    if well:
        verb = "tells" if len(well) == 1 else "tell"
        yield Hearing(text=f"{', '.join(well)} {verb} people of alerts", is_trouble=False)


def _others(heard: Sequence[HeardView]) -> Iterator[Hearing]:
    for each in heard:
        text = f"{each.source.capitalize()}: {each.what}"
        yield Hearing(text=text, is_trouble=each.state != "well")
