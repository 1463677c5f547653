"""How alerting goes, on a terminal."""

from collections.abc import Iterator

from controlplane.api.alerting_views import AlertingView, NotifierView
from controlplane.api.quantities import age
from controlplane.console.formatting import duration


def alerting_lines(view: AlertingView) -> Iterator[str]:
    """Of the evaluation first, then one for each notifier."""
    yield _evaluation(view)
    if not view.notifiers:
        yield "nobody is told: no notifier is configured (--notify of the control plane)"
    for each in view.notifiers:
        yield _notifier(each)


def _evaluation(view: AlertingView) -> str:
    if not view.is_on:
        return "objectives are not evaluated here (--alerting off)"
    if view.error is not None:
        return f"the last evaluation failed, of {view.num_failed_passes} that did: {view.error}"
    ago = view.evaluated_seconds_ago
    if ago is None:
        return "objectives were not evaluated yet"
    last = f"{age(ago)} ago"
    late = "; the one under way does not end" if view.is_overdue else ""
    return (
        f"{view.num_promises} objectives are evaluated every {view.evaluate_seconds:g} s, last "
        f"{last}, in {duration(view.pass_seconds)}; {view.num_firing} alerts fire{late}"
    )


def _notifier(each: NotifierView) -> str:
    told = f"{each.name} ({each.kind}, {each.file}): {each.num_told} told"
    failed = f", {each.num_failed} attempts failed" if each.num_failed else ""
    due = f", {each.num_due} due" if each.num_due else ""
    why = f"; the last one: {each.error}" if each.error else ""
    return f"{told}{failed}{due}{why}"
