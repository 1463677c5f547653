"""A diagnosis as the terminal shows it: the answer first, then why, then what to do."""

import shutil
import textwrap
from collections.abc import Iterable, Iterator

from controlplane.cli.terminal import instant
from controlplane.diagnosis.citing import seconds
from controlplane.diagnosis.diagnosis import Diagnosis, Finding, Lasted
from controlplane.diagnosis.json_form import GATHER, told_apart
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.onset import find_onset
from controlplane.diagnosis.window import Window

_MAX_WIDTH = 110
_MAX_DOUBTS = 8
_MAX_CHANGES = 3


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """The whole answer."""
    lines = [*_head(diagnosis), ""]
    for number, finding in enumerate(diagnosis.findings):
        if number:
            lines += ["", *_wrapped(f"Also {_title(finding)}"), ""]
        lines += _body(diagnosis.window, finding, None if number else diagnosis.lasted)
    if not diagnosis.findings:
        lines += _undecided(diagnosis)
    if diagnosis.explained:
        names = ", ".join(finding.mechanism.value for finding in diagnosis.explained)
        lines += ["", *_wrapped(f"Seen as well, and explained by this: {names}.")]
    if diagnosis.findings:
        lines += _beside(diagnosis.possible)
    lines += _telemetry(diagnosis.window)
    return "\n".join(lines)


def _head(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.findings:
        yield from _wrapped(_title(diagnosis.findings[0]))
    else:
        cannot_tell = Mechanism.CANNOT_TELL
        yield from _wrapped(f"{cannot_tell.value}: {cannot_tell.meaning}")
    yield _seen(diagnosis.window)


def _title(finding: Finding) -> str:
    detail = f" [{finding.verdict.detail}]" if finding.verdict.detail else ""
    mechanism = finding.mechanism
    return f"{mechanism.value} ({finding.confidence.word}){detail}: {mechanism.meaning}"


def _seen(window: Window) -> str:
    engine = window.engine
    name = "engine not known"
    if engine is not None:
        name = f"{engine.name} {engine.version}" if engine.version else engine.name
    parts = [name, f"{_span(window.end - window.start)} watched"]
    signals = {series.signal for series in window.series}
    signals |= {histogram.signal for histogram in window.histograms}
    parts.append(f"{len(signals)} signals")
    if window.events:
        plural = "" if len(window.events) == 1 else "s"
        parts.append(f"{len(window.events)} log event{plural}")
    return "(" + ", ".join(parts) + ")"


def _body(window: Window, finding: Finding, lasted: Lasted | None) -> Iterator[str]:
    verdict, rule = finding.verdict, finding.rule
    yield from _section("What speaks for it", verdict.evidence)
    if lasted is not None and lasted.seen_until is not None:
        yield from _section("When", _when(window, lasted, lasted.seen_until))
    else:
        yield from _section("Since when", _since(window, finding, lasted))
    yield from _section("What else was weighed", (*verdict.against, told_apart(rule.told_apart)))
    yield from _section("Would make it surer", verdict.needs)
    if finding.mechanism is Mechanism.HEALTHY:
        return
    yield from _section("What to do", (finding.remedy, f"What that may hide: {rule.hides}"))
    yield f"Runbook: pilothouse runbook {finding.mechanism.value}"


def _when(window: Window, lasted: Lasted, until: float) -> Iterator[str]:
    """Of what is over."""
    begun = "" if lasted.seen_from == until else f"from {_moment(lasted.seen_from)} "
    to = "to" if begun else "at"
    ago = _span(window.end - until)
    yield f"{begun}{to} {_moment(until)}, {ago} before the end of what was seen"
    yield _serving(window, lasted)
    if lasted.now is None:
        return
    now = lasted.now.value
    sureness = "" if lasted.now_confidence is None else f" ({lasted.now_confidence.word})"
    over = "it is over: " if lasted.now is Mechanism.HEALTHY else ""
    yield f"{over}what came after it, looked at alone, is {now}{sureness}"


def _serving(window: Window, lasted: Lasted) -> str:
    """Empty where it was not seen."""
    if lasted.serving_since is None:
        return ""
    ago = _span(window.end - lasted.serving_since)
    return f"started anew after it, and serving again since {_moment(lasted.serving_since)} ({ago})"


def _moment(at: float) -> str:
    return instant(round(at * 1e9)) if at >= _UNIX else f"{seconds(at)} s"


_UNIX = 1e9
"""Seconds: a smaller time is of a clock of its own."""


def _span(value: float) -> str:
    """`273 d 4 h`, `10 h 5 min`, `12 min`, `45 s`."""
    minutes = round(value / 60)
    if minutes < _FEWEST_MINUTES:
        return f"{seconds(value)} s"
    hours, rest = divmod(minutes, 60)
    days, hours_of_day = divmod(hours, 24)
    if days >= _FEWEST_DAYS:
        return f"{days} d {hours_of_day} h" if hours_of_day else f"{days} d"
    return " ".join(
        part for part in (f"{hours} h" * (hours > 0), f"{rest} min" * (rest > 0)) if part
    )


_FEWEST_MINUTES = 10
"""Whoever watched for some minutes said how many seconds."""
_FEWEST_DAYS = 2


def _since(window: Window, finding: Finding, lasted: Lasted | None) -> Iterator[str]:
    onset = find_onset(window, finding, None if lasted is None else lasted.sure_from)
    if lasted is not None and (onset is None or lasted.is_moment):
        yield _seen_from(window, lasted)
    if onset is not None:
        yield f"{onset.sentence}, {_span(window.end - onset.at)} before the end of what was watched"
        for lag in onset.preceded_by[:_MAX_CHANGES]:
            ago = _span(lag.seconds)
            yield f"changed {ago} before that, which makes it no cause: {lag.change.what}"
    if lasted is not None:
        yield _serving(window, lasted)


def _seen_from(window: Window, lasted: Lasted) -> str:
    """Empty where no log says it, or it was so all the time."""
    ago = f"{_span(window.end - lasted.seen_from)} before the end"
    if lasted.is_moment:
        return f"at {_moment(lasted.seen_from)}, {ago} of what was seen"
    if window.lines and window.start < lasted.seen_from < window.end:
        return f"to be seen from {_moment(lasted.seen_from)} on, {ago}"
    return ""


def _undecided(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _section("To settle it, find out", diagnosis.needs)
    for finding in diagnosis.possible:
        yield f"{finding.mechanism.value} (possible)"
        yield from _items(finding.verdict.evidence)
        yield from _items(finding.verdict.against, mark="but")
    if not diagnosis.possible:
        yield from _section("What was seen", diagnosis.seen)
    yield from _section("What to do", (GATHER,))
    yield f"Runbook: pilothouse runbook {Mechanism.CANNOT_TELL.value}"


def _beside(possible: Iterable[Finding]) -> Iterator[str]:
    """Troubles of their own, which the answer says nothing of."""
    for finding in possible:
        if not finding.rule.stands_beside:
            continue
        detail = f" [{finding.verdict.detail}]" if finding.verdict.detail else ""
        yield ""
        yield from _wrapped(f"Beside it, {finding.mechanism.value} (possible){detail}")
        yield from _items(finding.verdict.evidence)
        yield from _items(finding.verdict.against, mark="but")
        yield from _section("To settle it, find out", finding.verdict.needs)


def _section(title: str, items: Iterable[str]) -> Iterator[str]:
    said = [item for item in items if item]
    if said:
        yield title
        yield from _items(said)


def _items(items: Iterable[str], mark: str = "-") -> Iterator[str]:
    for item in items:
        yield from _wrapped(f"  {mark} {item}", indent="    ")


def _telemetry(window: Window) -> Iterator[str]:
    if not window.doubts:
        return
    yield ""
    said = list(dict.fromkeys(f"{d.name}: {d.what} ({d.kind.value})" for d in window.doubts))
    yield from _section("About the telemetry itself", said[:_MAX_DOUBTS])
    if len(said) > _MAX_DOUBTS:
        yield f"  - and {len(said) - _MAX_DOUBTS} more: see them with -o json"


def _wrapped(text: str, indent: str = "") -> list[str]:
    width = min(_MAX_WIDTH, shutil.get_terminal_size((_MAX_WIDTH, 24)).columns)
    return textwrap.wrap(
        text, width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
