"""What llama.cpp's server says of the speed of single requests, and of drafts for them."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.sources.log.figure import Figure, percent, plain
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


def read_statistics(text: str) -> Iterator[Figure]:
    """The speed of one request's prefill or decode, which its timings end with, and how much of
    what was drafted for it was accepted."""
    yield from _speculation(text)
    yield from _under_way(text)
    found = _RATE.search(text)
    if found is None:
        return
    is_prompt = found[1] == "prompt eval"
    signal = Signal.PROMPT_RATE if is_prompt else Signal.GENERATION_RATE
    figure = plain(signal, f"{found[1]} tokens per second", found[2])
    if figure is not None:
        yield figure


def _under_way(text: str) -> Iterator[Figure]:
    """Of a request that is not done yet."""
    found = _UNDER_WAY.search(text)
    if found is None:
        return
    name = "prompt processing tokens per second" if found[1] else "tg"
    signal = Signal.PROMPT_RATE if found[1] else Signal.GENERATION_RATE
    figure = plain(signal, name, found[2] or found[4])
    if figure is not None:
        yield figure


def _speculation(text: str) -> Iterator[Figure]:
    """Of `draft acceptance rate = 0.343 ( 313 accepted / 912 generated)`, or of the three lines
    that the example programs end with."""
    of_request = _ACCEPTED.search(text)
    figures: list[Figure | None] = []
    if of_request is not None:
        figures = [
            plain(Signal.ACCEPTANCE_RATE, "draft acceptance rate", of_request[1]),
            plain(Signal.LATE_ACCEPTED_TOKENS, "accepted", of_request[2]),
            plain(Signal.LATE_DRAFT_TOKENS, "generated", of_request[3]),
        ]
    drafter = _DRAFTER.search(text)
    if drafter is not None:
        figures += [
            plain(Signal.DRAFT_TOKENS, "#gen tokens", drafter[2], drafter=drafter[1]),
            plain(Signal.ACCEPTED_TOKENS, "#acc tokens", drafter[3], drafter=drafter[1]),
        ]
    of_run = _OF_RUN.search(text)
    if of_run is not None:
        make = percent if of_run[3] else plain
        figures = [make(_RUN_SIGNALS[of_run[1]], of_run[1], of_run[2])]
    yield from (figure for figure in figures if figure is not None)


_ACCEPTED = re.compile(
    r"draft acceptance(?: rate)? = ([\d.]+) \( *(\d+) accepted / +(\d+) generated\)"
)
_OF_RUN = re.compile(r"^ *(n_drafted|n_accept|accept) += +([\d.]+)(%)?")
_RUN_SIGNALS = {
    "n_drafted": Signal.DRAFT_TOKENS,
    "n_accept": Signal.ACCEPTED_TOKENS,
    "accept": Signal.ACCEPTANCE_RATE,
}
