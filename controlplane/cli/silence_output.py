"""Silences and maintenance windows in the terminal."""

from collections.abc import Sequence

from controlplane.api.silence_views import (
    IN_FORCE,
    PLANNED,
    CoveredPromise,
    SilencedView,
    SilencePlan,
    SilenceView,
)
from controlplane.cli.terminal import continued, instant, table

NONE_THERE = "nothing is silenced here and no maintenance is planned"


def silence_table(found: Sequence[SilenceView]) -> str:
    """One line for each."""
    if not found:
        return NONE_THERE
    rows = [("ID", "KIND", "WHICH ALERTS", "STATE", "FROM", "UNTIL", "BY", "REASON")]
    rows += [
        (
            each.silence_id,
            each.kind,
            each.what,
            each.state.replace("_", " "),
            instant(each.from_unix_ns),
            _until(each),
            each.created_by,
            each.reason,
        )
        for each in found
    ]
    return table(rows)


def silence_line(made: SilenceView) -> str:
    """What somebody has just made."""
    begins = f" from {instant(made.from_unix_ns)}" if made.state == PLANNED else ""
    return (
        f"{made.kind} {made.silence_id} of {made.what}{begins} until "
        f"{instant(made.until_unix_ns)}; it is over then by itself, or with `pilothouse slo "
        f"unsilence {made.silence_id}`"
    )


def plan_lines(plan: SilencePlan) -> list[str]:
    """What one would keep back."""
    it = plan.silence
    lines = [
        f"{it.kind} of {it.what}, from {instant(it.from_unix_ns)} until "
        f"{instant(it.until_unix_ns)}, would keep back the alerts of:",
        *(_promise_line(each) for each in plan.promises),
    ]
    if plan.covers_other_alerts:
        lines.append("and those of no objective, such as that a deployment has no data.")
    if plan.overlapping:
        lines.append(f"It overlaps {', '.join(plan.overlapping)}; whichever lasts longer counts.")
    return [*lines, "Nothing was made."]


def kept_back_line(it: SilenceView) -> str:
    """Of one that is in force, for who asks how promises stand."""
    return (
        f"nobody is told here of alerts of {it.what} until {instant(it.until_unix_ns)}: "
        f"{it.kind} {it.silence_id} by {it.created_by}: {continued(it.reason, '  ')}"
    )


def silenced_words(silenced: SilencedView) -> str:
    """Beside an alert: until when, and by whom."""
    return f"silenced until {instant(silenced.until_unix_ns)} by {silenced.by}: {silenced.reason}"


def _promise_line(promise: CoveredPromise) -> str:
    name = f"{promise.deployment} {promise.request_class} {promise.objective}"
    fires = f", fires {', '.join(promise.fires)}" if promise.fires else ""
    return (
        f"  {name}: {promise.state.replace('_', ' ')}{fires}; {promise.num_bad:,} of "
        f"{promise.num_judged:,} bad in the last hour"
    )


def _until(silence: SilenceView) -> str:
    if silence.state in (IN_FORCE, PLANNED):
        return instant(silence.until_unix_ns)
    who = "by itself" if silence.ended_by is None else f"by {silence.ended_by}"
    return f"over {instant(silence.over_at_unix_ns)} {who}"
