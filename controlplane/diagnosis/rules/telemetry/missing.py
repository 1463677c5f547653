"""telemetry.missing: somebody relies on a series that is not exported."""

import re
from dataclasses import replace

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.telemetry.bare_page import (
    is_scraped_by_nobody,
    tells_of_no_engine,
)
from controlplane.diagnosis.rules.telemetry.exported import (
    families_of,
    is_exported,
    now_called,
    other_names_of,
)
from controlplane.diagnosis.rules.telemetry.readers import NAME, READER, Read, names_read
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_NOTHING = re.compile(
    r"no (data|series|sample|metric|value|result|point)s?|not found|nan\b|\bnull\b|\bnone\b|empty"
    r"|absent|unknown|missing|never (evaluated|fired|fires|scales)|^\s*(\{\}|\[\])\s*$|<unset>"
    r"|inactive|insufficient data|404|501",
    re.IGNORECASE,
)
_NO_SERIES = re.compile(
    r"no (data(?! loss)|series|sample|metric|value|result|point)s?\b|nan\b|<unset>"
    r"|^\s*(\{\}|\[\])\s*$|returned (nothing|no\b|none|null)|did not find any|insufficient data",
    re.IGNORECASE,
)
"""The words of whoever asked for a series. "None" and "empty" say that much of what was read
alone: an alert list and a policy may well be none."""
_WAS_READ = r"\b(reads?|result\w*|returns?|returned|value|shows?|query|body|sees|answer\w*|panel)\b"
_ENDPOINT_OFF = (
    r"GET /metrics\S* HTTP[^\n]*\"? (401|404|403|501|503)|does not support metrics endpoint|"
    r"start it with `?--metrics|enable_metrics=False|metrics (endpoint )?(is |are )?disabled|"
    r"disable_log_stats=True"
)
_ENDPOINT = r"metrics( (endpoint|status|code|port|page|url|curl|http|answer\w*|flag)|$)"
_OFF = re.compile(r"\b(401|404|403|501|disabled|off|false|not enabled|refused|unauthori[sz]ed)\b")
_CONSUMER_LOG = (
    r"FailedGet\w*Metric|unable to (get|fetch)[^\n]*metric|no metrics? returned|"
    r"(query|result)[^\n]*(empty|returned no)|did not find any matching (series|metric)|"
    r"metric \S+ not found|could not find metric"
)
_WHOLE_PAGE = 8
"""Series: with fewer somebody saved an extract, and what it lacks may well be exported."""


_TELLS_NAMES = r"\b(export|exports|exported|exposes|exposed|available)\b"


def _judge(window: Window) -> Verdict | None:
    return _judge_names(window if window.exported_names else _with_names_told(window))


def _with_names_told(window: Window) -> Window:
    """No page was saved, and somebody wrote down what the engine exports."""
    names = frozenset(
        name
        for fact in window.facts
        if re.search(_TELLS_NAMES, plain(fact.key))
        for name in NAME.findall(fact.raw)
    )
    return replace(window, exported_names=names) if names else window


def _judge_names(window: Window) -> Verdict | None:
    argument = Argument(window)
    now = activity_of(window)
    bare = _of_a_bare_page(window, now)
    if bare is not None:
        return bare
    off = _endpoint_off(window)
    wanted = [each for each in names_read(window) if not is_exported(each.name, window)]
    nothing = _reads_nothing(window)
    if off:
        return _without_endpoint(argument, now, off, nothing)
    logged = window.lines_with(_CONSUMER_LOG)
    for line in logged[-2:]:
        argument.says(f"whoever reads it says: {' '.join(line.split())[:200]}")
    part = _part_missing(argument, now)
    if part is not None and not wanted:
        return part
    if wanted and window.exported_names:
        return _without_series(argument, now, wanted, nothing, is_logged=bool(logged))
    is_loaded = any(
        series is not None and series.last.value > 0
        for series in (now.running, now.in_flight, now.waiting)
    )
    is_said = any(_NO_SERIES.search(fact.raw) or _is_read(fact) for fact in nothing)
    if not (wanted and nothing) and not logged and not (is_said and is_loaded):
        return None
    for each in wanted:
        argument.says(each.said)
    for fact in nothing:
        argument.fact(fact)
    _cite_load(argument, now)
    argument.need("the names that the engine exports")
    is_likely = nothing and (wanted or (is_said and is_loaded))
    return argument.verdict(Confidence.LIKELY if is_likely else Confidence.POSSIBLE)


def _of_a_bare_page(window: Window, now: Activity) -> Verdict | None:
    """With all that its readers say of it."""
    for find in (tells_of_no_engine, is_scraped_by_nobody):
        argument = Argument(window)
        confidence = find(argument, window, now)
        if confidence is None:
            continue
        for sentence in _endpoint_off(window)[-2:]:
            argument.says(sentence)
        for each in names_read(window):
            argument.says(each.said)
        for fact in (*_reads_nothing(window), *told_all(window, r"scrape|http status|metrics")):
            argument.fact(fact)
        _cite_load(argument, now)
        _cite_changes(argument, window)
        argument.against("healthy: what is missing is not zero")
        return argument.verdict(confidence, detail="the engine's own series")
    return None


def _reads_nothing(window: Window) -> list[Fact]:
    """What is said to come out empty."""
    return [
        fact
        for fact in window.facts
        if fact.value is None
        and re.search(READER + r"|scrape|state", plain(fact.key))
        and _NOTHING.search(fact.raw)
    ]


def _is_read(fact: Fact) -> bool:
    return bool(re.search(_WAS_READ, plain(fact.key)))


def _endpoint_off(window: Window) -> list[str]:
    lines = [" ".join(line.split())[:240] for line in window.lines_with(_ENDPOINT_OFF)]
    told = [
        says(fact)
        for fact in window.facts
        if re.search(_ENDPOINT, plain(fact.key)) and _OFF.search(fact.raw.lower())
    ]
    return [*lines, *told]


def _without_endpoint(
    argument: Argument, now: Activity, off: list[str], nothing: list[Fact]
) -> Verdict | None:
    if now.window.exported_names:
        return None
    for sentence in off[-3:]:
        argument.says(sentence)
    for fact in nothing:
        argument.fact(fact)
    for fact in now.window.facts:
        if re.search(r"alert|rule|panel|dashboard", plain(fact.key)):
            argument.fact(fact)
    _cite_load(argument, now)
    _cite_changes(argument, now.window)
    argument.against("engine.hung: an endpoint that was never switched on says nothing of that")
    return argument.verdict(
        Confidence.CERTAIN if len(off) > 1 or nothing else Confidence.LIKELY,
        detail="the endpoint is off",
        remedy="Start the engine with its metrics on, and alert on series that are absent.",
    )


def _part_missing(argument: Argument, now: Activity) -> Verdict | None:
    """One of several endpoints is not read, and the sum of the others passes for the whole."""
    unread = [
        fact
        for fact in now.window.facts
        if re.search(r"scrape|target|endpoint|metrics", plain(fact.key))
        and re.search(
            r"\b(404|403|501|503)\b|not found|refused|\bdown\b|no route|timed? ?out|unreachable",
            fact.raw.lower(),
        )
    ]
    inside = now.in_flight
    shown = sum(series.last.value for series in (now.running, now.waiting) if series is not None)
    if not unread or inside is None or now.running is None:
        return None
    if shown >= _PART * inside.last.value:
        return None
    for fact in unread:
        argument.fact(fact)
    argument.series(now.running, "of those that are read")
    argument.series(now.waiting)
    argument.series(inside, "of all")
    for series in now.window.all_series(Signal.RUNNING):
        argument.series(series)
    argument.against("routing.skew: what is not read has its share of the load")
    argument.against("telemetry.stale: what is read moves")
    return argument.verdict(
        Confidence.CERTAIN,
        detail="one endpoint of several",
        remedy="Export from every rank and node, and take sums from the gateway until then.",
    )


_PART = 0.7
"""Of what is in flight; gauges and gateway are read at different moments."""


def _without_series(
    argument: Argument,
    now: Activity,
    wanted: list[Read],
    nothing: list[Fact],
    *,
    is_logged: bool,
) -> Verdict:
    window = now.window
    names = list(dict.fromkeys(each.name for each in wanted))
    for each in wanted:
        argument.says(each.said)
    for name in names:
        near = now_called(name, window)
        argument.says(
            f"{name} is not among the {len(families_of(window.exported_names))} exported series"
            + (f"; {near} is" if near else "")
        )
    for fact in nothing:
        argument.fact(fact)
    _cite_load(argument, now)
    _cite_changes(argument, window)
    argument.against("healthy: what is missing is not zero")
    if nothing or is_logged:
        return argument.verdict(Confidence.CERTAIN, detail=", ".join(names))
    is_read = any(not each.is_change for each in wanted)
    is_whole = is_read and len(families_of(window.exported_names)) >= _WHOLE_PAGE
    is_renamed = any(now_called(name, window) in other_names_of(name) for name in names)
    if is_whole or (is_read and is_renamed):
        return argument.verdict(Confidence.LIKELY, detail=", ".join(names))
    argument.need("the whole page that the engine exports", "what its reader reads")
    return argument.verdict(Confidence.POSSIBLE, detail=", ".join(names))


def _cite_load(argument: Argument, now: Activity) -> None:
    """There is load, so that nothing does not mean zero."""
    for series in (now.running, now.waiting, now.kv, now.in_flight):
        argument.series(series)
    for signal in (Signal.SEATS, Signal.BUSY_SLOTS):
        argument.series(now.window.find(signal))
    for fact in now.window.facts:
        if re.search(r"^(slots|seats|replicas|max num seqs)$", plain(fact.key)):
            argument.fact(fact)


def _cite_changes(argument: Argument, window: Window) -> None:
    for change in window.changes:
        argument.change(change)


MISSING = Rule(
    id="telemetry-missing",
    mechanism=Mechanism.TELEMETRY_MISSING,
    judge=_judge,
    needs=("the names that the engine exports", "the names that somebody relies on"),
    told_apart=(
        "From a quiet engine by load that other series show; from telemetry.stale by no value at "
        "all instead of an old one; from capacity.late by a scaler that never decides."
    ),
    remedy=(
        "Read a series that is exported (both names across a rename), and alert on its absence: "
        "missing is not zero."
    ),
    hides="A default of zero for what is missing makes the panel full again and the alert dead.",
    explains=frozenset(
        {Mechanism.CAPACITY_LATE, Mechanism.QUEUE_OVERLOAD, Mechanism.BATCH_UNDERFILLED}
    ),
)
