"""What an engine's prefix cache holds of prompts, told by the engine itself.

Blocks have the identity of `dataplane.routing.prompt_blocks`: whoever asks compares hashes, and
needs neither the engine's own block size nor its block ids. A first report is whole; whoever names
the cursor of the last one is told what changed since.
"""

from typing import Protocol, runtime_checkable

import msgspec


class PrefixReport(msgspec.Struct, frozen=True, kw_only=True):
    """All blocks, or those that came and went since a cursor."""

    cursor: str
    """Of this moment."""
    block_tokens: int
    """Tokens of one block, as hashed."""
    is_whole: bool
    """`stored` are all there are; else changes alone are told."""
    stored: bytes = b""
    """Hashes of DIGEST_BYTES each, one behind the other."""
    removed: bytes = b""
    """Alike. Of what came and went meanwhile, neither is told."""


@runtime_checkable
class PrefixReporter(Protocol):
    """An engine client whose engine tells."""

    async def cached_prefixes(self, cursor: str | None) -> PrefixReport | None:
        """What changed since `cursor`; all, where that is None or too long ago. None: this engine
        does not tell after all. Raises EngineUnavailableError."""
        ...
