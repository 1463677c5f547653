"""What a workspace is as large as: a product of the sizes that are known."""

import itertools
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.rules.memory.amount import Amount
from controlplane.diagnosis.rules.memory.ledger import facts_named
from controlplane.diagnosis.window import Window

_NEAR = 0.01
"""Messages round to two digits behind the point."""
_WIDTHS = (4, 2, 1)
"""Bytes of one number: float32, half precision, a byte."""
_SPLITS = (1, 2, 4, 8, 16)
"""Devices that share a tensor."""
_LEAST = 256
"""Smaller counts (ranks, cards, a batch of a few) fit by chance."""
_COUNTS = r"token|context|ctx|prompt|chunk|vocab|length|len$|seq|batch|hidden|rows|seats"


@dataclass(frozen=True, slots=True)
class _Count:
    key: str
    value: float
    raw: str


def product_for(window: Window, wanted: Amount) -> str | None:
    """`3.82 GiB = 6258 x 163840 x 4 bytes (last_request_prompt_tokens, vocab_size)`: the two counts
    whose product is what was wanted; None where no two are."""
    counts = [
        _Count(fact.key, fact.value, fact.raw)
        for fact in facts_named(window, _COUNTS)
        if fact.value is not None and fact.value >= _LEAST
    ]
    for (rows, columns), split, width in itertools.product(
        itertools.combinations(counts, 2), _SPLITS, _WIDTHS
    ):
        size = rows.value * columns.value / split * width
        if abs(size - wanted.size) <= _NEAR * wanted.size:
            small, large = sorted((rows, columns), key=lambda count: count.value)
            over = f"({large.raw} / {number(split)})" if split > 1 else large.raw
            return (
                f"{wanted.raw} = {small.raw} x {over} x {width} bytes ({small.key}, {large.key}): "
                "it grows with both"
            )
    return None
