"""What an engine's prefix cache holds of prompts, told by the engine itself.

Blocks have the identity of `dataplane.routing.prompt_blocks`: whoever asks compares hashes, and
needs neither the engine's own block size nor its block ids. A first report is whole; whoever names
the cursor of the last one is told what changed since.
"""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import msgspec

from dataplane.routing.prompt_blocks import DIGEST_BYTES


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

    def parts(self, max_blocks: int) -> "Iterator[PrefixReport]":
        """The same in several reports, each of which tells of no more blocks: to be taken one
        after the other."""
        size = max_blocks * DIGEST_BYTES
        for start in range(0, max(1, len(self.removed)), size):
            yield PrefixReport(
                cursor=self.cursor,
                block_tokens=self.block_tokens,
                is_whole=self.is_whole and not start,
                removed=self.removed[start : start + size],
            )
        for start in range(0, len(self.stored), size):
            yield PrefixReport(
                cursor=self.cursor,
                block_tokens=self.block_tokens,
                is_whole=False,
                stored=self.stored[start : start + size],
            )


@runtime_checkable
class PrefixReporter(Protocol):
    """An engine client whose engine tells."""

    async def cached_prefixes(self, cursor: str | None) -> PrefixReport | None:
        """What changed since `cursor`; all, where that is None or too long ago. None: this engine
        does not tell after all. Raises EngineUnavailableError."""
        ...
