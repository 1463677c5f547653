"""What an OpenAI-compatible stream says, chunk by chunk, in terms of the engine contract."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataplane.engine import EngineEvent
from dataplane.lifecycle import Disposition, EventKind

_DISPOSITIONS = {"stop": Disposition.STOP, "length": Disposition.LENGTH}


class MalformedChunkError(Exception):
    """The endpoint sent something that is no chunk of an OpenAI stream."""


@dataclass(slots=True)
class ChunkReader:
    """Turns one stream's chunks into events; remembers what only the end of it tells.

    A chunk is taken as one token: that is how engines stream by default, and where they do
    not, the final usage count corrects the total. Times are left to the gateway's receipt.
    """

    num_chunks: int = 0
    finish_reason: str | None = None
    num_prompt_tokens: int | None = None
    num_output_tokens: int | None = None

    def read(self, chunk: Mapping[str, Any]) -> EngineEvent | None:
        """The event that `chunk` amounts to, or None (a role, a usage count, an empty delta).

        Raises MalformedChunkError.
        """
        self._read_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise MalformedChunkError(f"no list of choices in it: {str(chunk)[:200]}")
        if not choices:
            return None
        choice = choices[0]
        if not isinstance(choice, Mapping):
            raise MalformedChunkError(f"a choice is no object: {str(chunk)[:200]}")
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice.get("delta")
        text = choice.get("text") or (delta.get("content") if isinstance(delta, Mapping) else None)
        if not text:
            return None
        self.num_chunks += 1
        kind = EventKind.FIRST_TOKEN if self.num_chunks == 1 else EventKind.TOKENS
        return EngineEvent(kind=kind, num_tokens=1, text=text)

    def end(self) -> EngineEvent:
        """FINISHED, once the stream has ended."""
        if self.finish_reason is None:
            return EngineEvent(
                kind=EventKind.FINISHED,
                disposition=Disposition.ERROR,
                status_code=502,
                reason="the endpoint ended its stream without a finish reason",
            )
        # Anything else a server may say (content_filter, tool_calls) ended of its own accord.
        return EngineEvent(
            kind=EventKind.FINISHED,
            disposition=_DISPOSITIONS.get(self.finish_reason, Disposition.STOP),
            reason=None if self.finish_reason in _DISPOSITIONS else self.finish_reason,
            num_prompt_tokens=self.num_prompt_tokens,
            num_output_tokens=self.num_output_tokens,
        )

    def _read_usage(self, usage: object) -> None:
        if not isinstance(usage, Mapping):
            return
        self.num_prompt_tokens = _count(usage.get("prompt_tokens"), self.num_prompt_tokens)
        self.num_output_tokens = _count(usage.get("completion_tokens"), self.num_output_tokens)


def _count(value: object, known: int | None) -> int | None:
    """`value` where it can be a count of tokens; otherwise what is known already."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return known
    return value
