"""Whose error it was decides what spends budget: every way to end, and every signal.

A contract at the server promises a first token and a first answer in 1 s, 0.1 s a token, no gap
above 0.5 s and the whole answer in 5 s. Each row is one request; below its name stands which
objectives it keeps (+), misses (-) and is not judged on (o).
"""

from dataclasses import dataclass, field

import pytest

from dataplane.contract_terms import WITHOUT_BOUND, ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import Verdict, judge
from dataplane.latency import Boundary, BoundaryLatencies, Latencies
from dataplane.lifecycle import Delivery, Disposition
from dataplane.outcome import outcome_of

_LIMITS = {
    "ttft": 1.0,
    "first_answer": 1.0,
    "tpot": 0.1,
    "max_itl": 0.5,
    "chunk_gap": 0.5,
    "e2e": 5,
}
_TERMS = ContractTerms(
    boundary=Boundary.SERVER,
    objectives=tuple(
        Objective(
            signal=signal,
            target=0.99,
            at_most_seconds=None if signal in WITHOUT_BOUND else _LIMITS[signal],
        )
        for signal in ObjectiveSignal
    ),
)
_SIGNS = {Verdict.GOOD: "+", Verdict.BAD: "-", Verdict.NOT_APPLICABLE: "o"}

_NONE, _PARTIAL, _COMPLETE = Delivery.NONE, Delivery.PARTIAL, Delivery.COMPLETE
_D = Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """How one request ended, and what was measured of it at the server."""

    disposition: Disposition
    delivery: Delivery = _NONE
    status: int | None = None
    seen: dict[str, float] = field(default_factory=dict)
    elapsed: float = 0.1


_FAST = {"ttft": 0.2, "first_answer": 0.2, "tpot": 0.05, "max_gap": 0.1, "e2e": 2.0}
_LATE = {"ttft": 1.2, "first_answer": 1.2}
_BEGUN = {"ttft": 0.2, "first_answer": 0.2, "max_gap": 0.1}
_THINKS = {"ttft": 0.2}


def _answered(**changes: float | None) -> _Ended:
    seen = {name: at for name, at in {**_FAST, **changes}.items() if at is not None}
    return _Ended(disposition=_D.STOP, delivery=_COMPLETE, status=200, seen=seen)


def _refused(disposition: Disposition) -> _Ended:
    return _Ended(disposition=disposition, status=503)


def _left(elapsed: float, seen: dict[str, float], status: int | None = 200) -> _Ended:
    delivery = _PARTIAL if seen else _NONE
    return _Ended(
        disposition=_D.CANCELLED, delivery=delivery, status=status, seen=seen, elapsed=elapsed
    )


# ttft, first_answer, tpot, max_itl, chunk_gap, e2e, acceptance, availability
_TABLE: dict[str, tuple[_Ended, str]] = {
    "answered in time": (_answered(), "+ + + o + + + +"),
    "answered in time to its limit": (
        _Ended(disposition=_D.LENGTH, delivery=_COMPLETE, status=200, seen=_FAST),
        "+ + + o + + + +",
    ),
    "answered with one token": (_answered(tpot=None, max_gap=None), "+ + o o o + + +"),
    "answered late from the start": (_answered(**_LATE), "- - + o + + + +"),
    "answered late after reasoning": (_answered(first_answer=1.5), "+ - + o + + + +"),
    "answered with reasoning alone": (_answered(first_answer=None, e2e=0.9), "+ o + o + + + +"),
    "answered with reasoning alone for too long": (
        _answered(first_answer=None),
        "+ - + o + + + +",
    ),
    "answered slowly": (_answered(tpot=0.2, max_gap=0.6, e2e=6.0), "+ + - o - - + +"),
    # Capacity and shedding: bad on every latency, though none was measured.
    "refused for want of room": (_refused(_D.REJECTED), "- - - o - - - -"),
    "shed": (_refused(_D.SHED), "- - - o - - - -"),
    "expired in the queue": (_refused(_D.DEADLINE), "- - - o - - - -"),
    "no replica could take it": (_refused(_D.ERROR), "- - - o - - - -"),
    "no tokenizer to count it with": (_refused(_D.INVALID), "- - - o - - - -"),
    # The caller's own: none of our budget.
    "over a limit of its own": (_Ended(disposition=_D.REJECTED, status=429), "o o o o o o o o"),
    "of a class that nobody serves": (
        _Ended(disposition=_D.REJECTED, status=403),
        "o o o o o o o o",
    ),
    "invalid": (_Ended(disposition=_D.INVALID, status=400), "o o o o o o o o"),
    "left before it was sent whole": (_Ended(disposition=_D.INVALID), "o o o o o o o o"),
    "refused by its engine as wrong": (_Ended(disposition=_D.ERROR, status=400), "o o o o o o o o"),
    # The service's: it was let in, and failed.
    "its engine failed before the first token": (
        _Ended(disposition=_D.ERROR, status=502),
        "- - - o - - + -",
    ),
    "its engine failed in mid answer": (
        _Ended(disposition=_D.ERROR, delivery=_PARTIAL, status=200, seen=_BEGUN),
        "- - - o - - + -",
    ),
    "the gateway failed": (_Ended(disposition=_D.ERROR, status=500), "- - - o - - + -"),
    "an operator ended its gateway in mid answer": (
        _Ended(disposition=_D.ERROR, delivery=_PARTIAL, status=200, seen=_BEGUN),
        "- - - o - - + -",
    ),
    "an operator ended its gateway while it waited": (_refused(_D.ERROR), "- - - o - - - -"),
    "lost with its gateway": (_Ended(disposition=_D.LOST), "- - - o - - - -"),
    "lost with its gateway in mid answer": (
        _Ended(disposition=_D.LOST, delivery=_PARTIAL),
        "- - - o - - + -",
    ),
    # A client that left spends only after its first token was missed, here the first promise.
    "left at once": (_left(0.1, {}, None), "o o o o o o o o"),
    "left when its first token was due": (_left(1.1, {}, None), "- - o o o o o -"),
    "left when its whole answer was due": (_left(5.1, {}, None), "- - o o o - o -"),
    "left in mid answer": (_left(3.0, _BEGUN), "+ + o o o o + o"),
    "left in mid answer when all of it was due": (_left(5.1, _BEGUN), "+ + o o o o + o"),
    "left in mid answer that came late": (_left(3.0, _LATE), "- - o o o o + o"),
    "left in mid answer that came late when all of it was due": (
        _left(5.1, _LATE),
        "- - o o o - + o",
    ),
    "left while it was reasoned": (_left(0.5, _THINKS), "+ o o o o o + o"),
    "left while it was reasoned for too long": (_left(3.0, _THINKS), "+ o o o o o + o"),
    "left in mid answer after it was reasoned for too long": (
        _left(3.0, {"ttft": 0.2, "first_answer": 1.5}),
        "+ o o o o o + o",
    ),
    "left when all was done and not yet sent": (
        _Ended(disposition=_D.STOP, delivery=_PARTIAL, status=200, seen=_BEGUN, elapsed=3.0),
        "+ + o o o o + o",
    ),
}


@pytest.mark.parametrize(("ended", "expected"), _TABLE.values(), ids=_TABLE)
def test_whose_error_it_was_decides_what_spends_budget(ended: _Ended, expected: str) -> None:
    outcome = outcome_of(ended.disposition, ended.delivery, ended.status)
    latencies = Latencies(server=BoundaryLatencies(**ended.seen))
    judgement = judge(latencies, outcome, _TERMS, ended.elapsed)

    found = " ".join(_SIGNS[result.verdict] for result in judgement.results)
    assert found == expected
    assert judgement.in_contract is (None if set(expected) <= set("o ") else "-" not in expected)


def test_every_way_to_end_is_in_the_table() -> None:
    assert {ended.disposition for ended, _ in _TABLE.values()} == set(Disposition)
