"""Token ids that stand for nothing but their own identity, kept as ranges.

A prompt of shared and own parts is a few ranges behind each other, however long it is. Two
requests share a prefix exactly where the same ranges begin them::

    prefix "a"          own tokens of the prompt, and behind them those of its answer
    [-7 * 2**32, + n)   [k, + m)[k + m, + o)
"""

from collections.abc import Sequence
from typing import overload

from dataplane.scheduling.compact_prompt import CompactPrompt

_MOST_TOKENS_OF_PART = 2**32


class JoinedTokens(CompactPrompt):
    """Ranges of consecutive ids, read as one sequence. Slicing it makes a tuple."""

    __slots__ = ("_num_tokens", "parts")

    def __init__(self, parts: tuple[range, ...]) -> None:
        self.parts = parts
        self._num_tokens = sum(map(len, parts))

    def __len__(self) -> int:
        return self._num_tokens

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        if isinstance(index, int):
            return self._token_at(index)
        start, stop, step = index.indices(self._num_tokens)
        if step == 1:
            at = start
            for part in self.parts:
                length = len(part)
                if at < length:  # most slices are a block, and lie in one part
                    if stop - start <= length - at:
                        return tuple(part[at : at + stop - start]) if stop > start else ()
                    break
                at -= length
        tokens: list[int] = []
        for part in self.parts:
            if start >= stop:
                break
            length = len(part)
            if start < length:
                tokens += part[start : min(stop, length)]
            start, stop = max(0, start - length), stop - length
        return tuple(tokens[::step])

    def num_same(self, other: "JoinedTokens", start: int, stop: int) -> int:
        """Ranges are compared and no tokens: two of them that have one token in common at one
        place have all that follow, as far as both reach."""
        at = start
        while at < stop:
            token, ends_at = self._stretch_at(at)
            other_token, other_ends_at = other._stretch_at(at)
            if token != other_token:
                break
            at = min(ends_at, other_ends_at)
        return min(at, stop) - start

    def _stretch_at(self, position: int) -> tuple[int, int]:
        """The token there, and where the range that it is of ends."""
        begins_at = 0
        for part in self.parts:
            ends_at = begins_at + len(part)
            if position < ends_at:
                return part[position - begins_at], ends_at
            begins_at = ends_at
        raise IndexError(f"there are {self._num_tokens} tokens, none at {position}")

    def _token_at(self, index: int) -> int:
        if not -self._num_tokens <= index < self._num_tokens:
            raise IndexError(f"there are {self._num_tokens} tokens, none at {index}")
        return self._stretch_at(index % self._num_tokens)[0]


def joined(parts: Sequence[range], num_tokens: int | None = None) -> range | JoinedTokens:
    """The parts as one; cut off after `num_tokens`."""
    kept: list[range] = []
    left = sum(map(len, parts)) if num_tokens is None else num_tokens
    for part in parts:
        if left <= 0:
            break
        if part:
            kept.append(part[:left])
        left -= len(part)
    return kept[0] if len(kept) == 1 else JoinedTokens(tuple(kept))


def parts_of(tokens: range | JoinedTokens) -> tuple[range, ...]:
    """The ranges that it is made of."""
    return tokens.parts if isinstance(tokens, JoinedTokens) else (tokens,)


class PrefixTokens:
    """Gives each prefix, by its name or hash, tokens of its own: always the same."""

    def __init__(self) -> None:
        self._number_by_name: dict[str | int, int] = {}

    def of(self, name: str | int, num_tokens: int) -> range:
        """The tokens of a prefix."""
        number = self._number_by_name.setdefault(name, len(self._number_by_name) + 1)
        start = -number * _MOST_TOKENS_OF_PART
        return range(start, start + num_tokens)


class OwnTokens:
    """Gives tokens that nobody has had."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, num_tokens: int) -> range:
        """So many fresh ones."""
        start = self._next
        self._next = start + num_tokens
        return range(start, self._next)
