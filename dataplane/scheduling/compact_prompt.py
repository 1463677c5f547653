"""A prompt that is kept as less than its tokens, and compared without them."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self


class CompactPrompt(Sequence[int]):
    """For prompts whose tokens stand for nothing but their own identity."""

    __slots__ = ()

    @abstractmethod
    def num_same(self, other: Self, start: int, stop: int) -> int:
        """How many tokens from `start` on are the same in `other`, up to `stop`, which both
        reach."""
