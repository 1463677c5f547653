"""Who was refused, how many of them, and by what."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.citing import moved, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_REFUSED = (
    r"\b(429|503|422|413)s?\b|\b(rejected|rejections?|rejects|refus\w+|shed|shedding|throttled|denied"
    r"|overloaded|turned away|quota exceeded)\b"
)
_NOT_REFUSED = (
    r"\b(limit|max|minimum|threshold|policy|setting|share|rate|before|per|health|probe|alert"
    r"|drafts?|tokens?|spec\w*|sampl\w*|blocks?|pages?|bytes|packets?|proposals?|candidates?"
    r"|kv|logits?|commits?|builds?)\b"
)
"""Settings, and what is refused that nobody asked for: drafts, blocks, packets."""
_OF_ANSWERS = (
    r"\b(http|status(es)?|codes?|answers?|answered|responses?|responded|results?|errors?|outcomes?"
    r"|clients?|callers?|users?|requests?|calls|replies|returned|gateway|proxy|ingress|router"
    r"|upstream|api)\b"
)
_STATUS = re.compile(r"\b([45]\d\d)s?\b")
_CODE = re.compile(r"\b([1-5]\d\d)\b\s*(?:[:=x]|times)?\s*(\d+)")
_LIMITED = r"overload|busy|limit|quota|queue|capacity|rate|permit|full|reject|validation|length"
_TOO_LONG = (
    r"must be <= (\d+)\. Given: (\d+)|maximum context length is (\d+)|longer than the maximum|"
    r"exceeds? the (maximum|context|model)|too long|input length.*exceed"
)
_REFUSING_LINE = (
    r"no permits available|capacity exceeded|requests? (was )?shed\b|max parallel request limit|"
    r"ratelimiterror|circuit.?breaker.{0,20}(open|overflow)|pending (request )?overflow|throttled|"
    r"model is overloaded|queue (is )?full|too many requests|rate.?limit(ed)?|"
    r"workers are busy|server (is )?(busy|overloaded)|exceeded? (the )?(max|quota|limit)|"
    r"admission (denied|rejected)"
)
_MOST_RETRIES = 0.5


def refused_in(argument: Argument, window: Window) -> float:
    """How many, by whoever counted most of them."""
    counts = [0.0]
    for series in _refusing_series(window):
        grown = series.increase if len(series.readings) > 1 else series.last.value
        if grown:
            reason = series.labels.get("reason") or series.labels.get("code", "")
            argument.says(f"{moved(series)}{f' ({reason})' if reason else ''}")
            counts.append(grown)
    events = window.events_of(LogKind.REJECTED)
    lines = window.lines_with(_REFUSING_LINE)
    if events or lines:
        num = max(len(events), len(lines))
        line = events[-1].line if events else lines[-1]
        argument.says(f"{num} such lines: {' '.join(line.split())[:200]}")
        counts.append(float(num))
    too_long = window.lines_with(_TOO_LONG)
    counts.append(float(len(too_long)))
    for fact, by_code in _listed(window):
        argument.fact(fact)
        counts += [by_code[code] for code in _REFUSING_CODES & set(by_code)]
    for fact in _told_refused(window):
        code = _STATUS.search(plain(fact.key))
        argument.fact(fact, f"answered with {code[1]}" if code else "")
        counts.append(number_of(fact) or 0.0)
    return max(counts)


def listed_sent(window: Window) -> float | None:
    """All answers of a list of them by status, of which some were refused; None where none is."""
    return max((sum(by_code.values()) for _, by_code in _listed(window)), default=None)


_REFUSING_CODES = frozenset({"429", "503"})


def _listed(window: Window) -> Iterator[tuple[Fact, dict[str, float]]]:
    """Answers by status as one text lists them: `200: 5000, 429: 6`."""
    for fact in window.facts:
        if fact.value is None and fact.part is None and re.search(_OF_ANSWERS, plain(fact.key)):
            by_code = {code: float(count) for code, count in _CODE.findall(fact.raw)}
            if _REFUSING_CODES & set(by_code):
                yield fact, by_code


def _refusing_series(window: Window) -> list[Series]:
    found = [
        *window.all_series(Signal.REJECTED),
        *window.all_series(Signal.GATEWAY_REJECTED),
        *(
            series
            for series in window.all_series(Signal.FAILED)
            if re.search(_LIMITED, " ".join(series.labels.values()), re.IGNORECASE)
        ),
        *(
            series
            for series in window.all_series(Signal.HTTP_ANSWERED)
            if re.search(r"\b(429|503|5xx)\b", " ".join(series.labels.values()))
        ),
    ]
    return [series for series in found if series.last.value > 0]


def _told_refused(window: Window) -> list[Fact]:
    return [
        fact
        for fact in told_all(window, _REFUSED, without=_NOT_REFUSED)
        if (value := number_of(fact)) is not None and value > 0 and fact.unit is None
    ] + [
        fact
        for fact in told_all(window, r"(answered|http|status|code) ?(429|503)")
        if (value := number_of(fact)) is not None and value > 0
    ]


def names_its_limit(window: Window) -> bool:
    """Whoever refuses says that a limit did it, and not the status of an answer alone."""
    return bool(
        window.lines_with(_REFUSING_LINE)
        or any(
            re.search(_LIMITED, " ".join(series.labels.values()), re.IGNORECASE)
            for series in _refusing_series(window)
        )
    )


def are_too_long(argument: Argument, window: Window) -> bool:
    """A limit of length refuses them, and says so."""
    lines = window.lines_with(_TOO_LONG)
    if not lines and not window.events_of(LogKind.PROMPT_TOO_LONG):
        return False
    for line in dict.fromkeys(lines[-2:]):
        argument.says(" ".join(line.split())[-240:])
    return True


def are_retries(argument: Argument, window: Window, refused: float) -> bool:
    """The same requests again, as far as somebody counted them."""
    fact = told_number(
        window, r"retr(y|ies|ied)", without=r"limit|max|budget|policy|after|outer|sdk"
    )
    value = number_of(fact)
    if value is not None and value >= _MOST_RETRIES * (refused if value > 1 else 1.0):
        return True
    apart = told_number(
        window, r"distinct|unique|original|different (bodies|requests)|client calls"
    )
    every = told_number(window, r"^(requests|arrivals|attempts|received)\b")
    num, whole = number_of(apart), number_of(every)
    if apart is None or every is None or not num or not whole or whole < num / _MOST_RETRIES:
        return False
    argument.says(f"{says(every)}, {says(apart)}: most of them came before")
    return True
