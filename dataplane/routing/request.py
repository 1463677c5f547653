"""What routing knows of a request: how much work it is, and what it shares with others."""

from collections.abc import Mapping

import msgspec


class RoutingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, before a replica is chosen for it."""

    num_prompt_tokens: int
    num_output_tokens: int
    """That may be generated, in all its sequences."""
    blocks: tuple[bytes, ...] = ()
    """Chained hashes of the full blocks of its prompt, see `hash_blocks`; empty: not told apart."""
    affinity_key: str | None = None
    """Requests with the same one prefer the same replica."""


class RoutedRequest(msgspec.Struct, frozen=True):
    """What a policy is shown of a request at the moment of a choice."""

    num_prompt_tokens: int
    num_output_tokens: int
    num_cached_tokens: Mapping[str, int]
    """By replica id: tokens of its prompt that need not be computed there. Who is not in it has
    none, as far as is known."""


UNKNOWN_WORK = RoutingRequest(num_prompt_tokens=0, num_output_tokens=0)
"""Of a request of which nobody said anything: a slot is all that it takes."""
