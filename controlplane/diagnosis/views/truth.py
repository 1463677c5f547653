"""What is known beside an engine's own gauges: whether requests are there, and whether it answers.

An engine that hangs, gauges that are frozen, an engine that was put to sleep and one that holds on
to what nobody wants look alike in its own figures. The gateway's count and a probe are not its own.
"""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import says, stands
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.told import plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

NEEDS = ("requests in flight at the gateway", "a one-token probe")
"""What settles it where neither is known."""

_PROBE = (
    r"probe|one token|canary|ping request|completion check|curl|sentinel"
    r"|\b(test|tiny|small|trial|manual|hello|single|own|short|simple)\b.*\b(request|prompt|call)\b"
    r"|^(slots|props|generate|completions?|chat|models)( endpoint)?$|endpoint$"
)
_NOT_A_PROBE = (
    r"liveness|readiness|startup|interval|period|timeouts?|fail(ed|ures)|health|metrics|count|total"
    r"|since|begin|per"
)
_ONE_REQUEST = r"\b(request|call|completion|generate|inference|infer|prompt|curl|chat|prediction)\b"
_NOTHING_CAME = r"\b(query|message|reply|answer|stream|session|generation|response)\b"
"""Of these only that nothing came is told: `session: works` may be of an affinity."""
_FATE = re.compile(
    r"\s*(answer\w*|return\w*|repl(y|ies|ied)|responds?|responded|succe\w+|works|ok\b|fine|200\b"
    r"|no (answer|reply|response|tokens?|output|bytes?)|times? ?out|timed ?out|hangs?|hung|never"
    r"|stuck|nothing|blocks|blocked|waits|\d+ tokens? in)",
    re.IGNORECASE,
)
"""What became of one request that somebody sent to see, whatever they called it."""
_NO_ANSWER = re.compile(
    r"no (answer|response|reply|token)|time(d)? ?out|unanswered|never|hang|hung|stuck|fail|refused"
    r"|\bnone\b|\bno\b|\bnot\b|n't\b|\bfalse\b|nothing|\b50[0-9]\b|\b(queued|behind|waits|waiting"
    r"|pending|lost|deadline)\b|^\s*(0|off)\s*$",
    re.IGNORECASE,
)
_ANSWERED = re.compile(
    r"\s*((http ?)?(status )?2\d\d\b|ok\b|answered\b|\d+(\.\d+)? ?(ms|s)\b|\d+ tokens?\b)",
    re.IGNORECASE,
)
"""It begins with what only an answer has: a status, a time, a count of tokens."""
_AFTER_ALL_NOT = re.compile(
    r"\b(no|without)( an?y?| first)? (answers?|response|reply|tokens?|output|bytes?|chunks?|body"
    r"|data)\b|time(d|s)? ?out|unanswered|never|hang|hung|stuck|nothing|empty|stops?\b|stopped"
    r"|(0|zero) tokens|n't\b|\bnot (answered|ended|finished|done|come|complete)"
    r"|\b(queued|behind|waits|waiting|pending|lost)\b",
    re.IGNORECASE,
)


def _is_answered(probe: Fact) -> bool:
    if _ANSWERED.match(probe.raw):
        return not _AFTER_ALL_NOT.search(probe.raw)
    return not _NO_ANSWER.search(probe.raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Of one window."""

    in_flight: Series | None
    probe: Fact | None
    is_answered: bool | None
    """The newest probe; None where there was none."""
    is_asleep: bool

    @property
    def is_wanted(self) -> bool | None:
        """Somebody waits for an answer; None where the gateway's count is not known."""
        return None if self.in_flight is None else self.in_flight.last.value > 0

    @property
    def says(self) -> tuple[str, ...]:
        """What is known, as findings cite it."""
        sentences = []
        if self.in_flight is not None:
            series = self.in_flight
            sentences.append(
                stands(series) if series.is_constant else f"{series.origin.name} {series.last.raw}"
            )
        if self.probe is not None:
            sentences.append(says(self.probe))
        return tuple(sentences)

    @property
    def needs(self) -> tuple[str, ...]:
        """What is not known."""
        known = (self.in_flight is not None, self.probe is not None)
        return tuple(need for need, is_known in zip(NEEDS, known, strict=True) if not is_known)


def is_probe(fact: Fact) -> bool:
    """Whether it tells of a request that was sent to see whether an answer comes."""
    key = plain(fact.key)
    is_named = re.search(_PROBE, key) is not None and not re.search(_NOT_A_PROBE, key)
    return is_named and not _is_a_count(fact)


def _is_a_count(fact: Fact) -> bool:
    """`slots: 4` is how many there are, and no answer of the endpoint of that name."""
    is_endpoint = re.fullmatch(r"slots|models|completions?", plain(fact.key)) is not None
    return is_endpoint and fact.value is not None and fact.value < _LEAST_STATUS


_TAKEN = re.compile(r"\s*(accepted|connected|taken|received)\b", re.IGNORECASE)
"""That a request was taken is no answer to it."""
_LEAST_STATUS = 100
"""Of an answer over HTTP."""


def _told_of_one(window: Window) -> Fact | None:
    """The newest request of which somebody tells in words what became of it."""
    found = [
        fact
        for fact in told_all(
            window,
            f"{_ONE_REQUEST}|{_NOTHING_CAME}",
            without=f"{_NOT_A_PROBE}|client|user|error|affinity|format|policy",
        )
        if fact.value is None and fact.part is None and _FATE.match(fact.raw)
        if re.search(_ONE_REQUEST, plain(fact.key)) or _NO_ANSWER.search(fact.raw)
    ]
    return found[-1] if found else None


def truth_of(now: Activity) -> Truth:
    """What is known of `now` beside the engine's gauges."""
    probes = [
        fact
        for fact in told_all(now.window, _PROBE, without=_NOT_A_PROBE)
        if not _is_a_count(fact) and not _TAKEN.match(fact.raw)
    ]
    probe = probes[-1] if probes else _told_of_one(now.window)
    asleep = now.window.find(Signal.SLEEPING)
    return Truth(
        in_flight=now.in_flight,
        probe=probe,
        is_answered=None if probe is None else _is_answered(probe),
        is_asleep=asleep is not None and asleep.last.value > 0,
    )
