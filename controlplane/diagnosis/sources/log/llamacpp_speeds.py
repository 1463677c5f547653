"""What llama.cpp's server says of the speed of single requests, and of drafts for them."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.sources.log.figure import FigurePlace, Unit
from dataplane.engine_metrics.signal import Signal

STATISTICS_KEYS = frozenset(
    {"eval", "acceptance", "processing", "n_decoded", "#gen", "n_drafted", "n_accept", "accept"}
)

STATISTICS_START = re.compile(
    r"\beval time *= |draft acceptance(?: rate)? = |n_decoded = "
    r"|prompt processing, n_tokens = .* tokens per second|#gen tokens = "
    r"|^ *(?:n_drafted|n_accept|accept) +="
)

_UNDER_WAY = re.compile(
    r"(prompt processing), n_tokens = .*/ +([\d.]+) tokens per second"
    r"|n_decoded = .*(tg) = +([\d.]+) t/s"
)
_DRAFTER = re.compile(r"statistics (\S+): .*#gen tokens = (\d+), #acc tokens = (\d+)")
_RATE = re.compile(r"\b(prompt eval|eval) time *= .*?(?<![\d.])([\d.]+) tokens per second")


def find_statistics(text: str) -> Iterator[FigurePlace]:
    """The speed of one request's prefill or decode, which its timings end with, and how much of
    what was drafted for it was accepted."""
    yield from _speculation(text)
    yield from _under_way(text)
    found = _RATE.search(text)
    if found is not None:
        is_prompt = found[1] == "prompt eval"
        signal = Signal.PROMPT_RATE if is_prompt else Signal.GENERATION_RATE
        yield FigurePlace(signal, f"{found[1]} tokens per second", found.span(2))


def _under_way(text: str) -> Iterator[FigurePlace]:
    """Of a request that is not done yet."""
    found = _UNDER_WAY.search(text)
    if found is None:
        return
    name = "prompt processing tokens per second" if found[1] else "tg"
    signal = Signal.PROMPT_RATE if found[1] else Signal.GENERATION_RATE
    yield FigurePlace(signal, name, found.span(2) if found[1] else found.span(4))


def _speculation(text: str) -> Iterator[FigurePlace]:
    """Of `draft acceptance rate = 0.343 ( 313 accepted / 912 generated)`, or of the three lines
    that the example programs end with."""
    of_run = _OF_RUN.search(text)
    if of_run is not None:
        unit = Unit.PERCENT if of_run[3] else Unit.PLAIN
        yield FigurePlace(_RUN_SIGNALS[of_run[1]], of_run[1], of_run.span(2), unit)
        return
    found = _ACCEPTED.search(text)
    if found is not None:
        yield FigurePlace(Signal.ACCEPTANCE_RATE, "draft acceptance rate", found.span(1))
        yield FigurePlace(Signal.LATE_ACCEPTED_TOKENS, "accepted", found.span(2))
        yield FigurePlace(Signal.LATE_DRAFT_TOKENS, "generated", found.span(3))
    found = _DRAFTER.search(text)
    if found is not None:
        whose = ("drafter", found.span(1))
        yield FigurePlace(Signal.DRAFT_TOKENS, "#gen tokens", found.span(2), label_at=whose)
        yield FigurePlace(Signal.ACCEPTED_TOKENS, "#acc tokens", found.span(3), label_at=whose)


_ACCEPTED = re.compile(
    r"draft acceptance(?: rate)? = ([\d.]+) \( *(\d+) accepted / +(\d+) generated\)"
)
_OF_RUN = re.compile(r"^ *(n_drafted|n_accept|accept) += +([\d.]+)(%)?")
_RUN_SIGNALS = {
    "n_drafted": Signal.DRAFT_TOKENS,
    "n_accept": Signal.ACCEPTED_TOKENS,
    "accept": Signal.ACCEPTANCE_RATE,
}
