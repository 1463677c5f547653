"""What a workspace is as large as: a product of the sizes that are known."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.rules.memory.amount import MIB, Amount
from controlplane.diagnosis.rules.memory.ledger import facts_named
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_WIDTHS = (4, 2, 1)
"""Bytes of one number: float32, half precision, a byte."""
_SPLITS = (1, 2, 4, 8, 16)
"""Devices that share a tensor."""
_ALIGNED = 2 * MIB
"""Allocators round large requests up to pages of this size."""
_LEAST = 256
"""Of a count that a workspace grows with: smaller ones fit by chance."""
_MOST_STREAMS = 64
_COUNTS = r"token|context|ctx|prompt|chunk|vocab|length|len$|seq|batch|hidden|rows|seats|dim|width"
_STREAMS = r"stream|head|copies|sample|images?$|experts|top_?k|beams"
"""What multiplies both, and is small."""


@dataclass(frozen=True, slots=True)
class _Count:
    key: str
    value: float
    raw: str


def product_for(window: Window, wanted: Amount) -> str | None:
    """`3.82 GiB = 6258 x 163840 x 4 bytes (last_request_prompt_tokens, vocab_size)`: the two counts
    whose product is what was wanted; None where no two are."""
    counts = _counts(window, _COUNTS, _LEAST, float("inf"))
    streams = _counts(window, _STREAMS, 2, _MOST_STREAMS)
    for rows, columns in itertools.combinations(counts, 2):
        small, large = sorted((rows, columns), key=lambda count: count.value)
        for width, split in itertools.product(_WIDTHS, _SPLITS):
            if _is(small.value * large.value / split * width, wanted):
                over = f"({large.raw} / {number(split)})" if split > 1 else large.raw
                return _sentence(wanted, f"{small.raw} x {over}", width, (small, large))
        for width, times in itertools.product(_WIDTHS, streams):
            if _is(small.value * large.value * times.value * width, wanted):
                factors = f"{large.raw} x {times.raw} x {small.raw}"
                return _sentence(wanted, factors, width, (small, large, times))
    return None


def _counts(window: Window, pattern: str, least: float, most: float) -> list[_Count]:
    return [
        _Count(fact.key, fact.value, fact.raw)
        for fact in facts_named(window, pattern)
        if fact.value is not None
        and least <= fact.value <= most
        and fact.unit in (None, Unit.TOKENS, Unit.REQUESTS, Unit.COUNT)
    ]


def _is(size: float, wanted: Amount) -> bool:
    """As near as the figure was rounded."""
    return 0 <= wanted.size - size + wanted.rounded_by <= _ALIGNED + 2 * wanted.rounded_by


def _sentence(wanted: Amount, factors: str, width: int, counts: Sequence[_Count]) -> str:
    keys = ", ".join(count.key for count in counts)
    return f"{wanted.raw} = {factors} x {width} bytes ({keys}): it grows with them"
