"""What an OpenAI-compatible stream says, chunk by chunk, in terms of the engine contract.

A chunk is taken as one token, or as many as it tells logprobs of: that is how engines stream
by default, and where they do not, the final usage count corrects the total. Times are left to
the gateway's receipt. Whatever else a `delta` holds (tool calls, reasoning) is handed on as it
is, and counts as well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dataplane.engine import EngineEvent, TokenLogprob
from dataplane.lifecycle import Disposition, EventKind
from dataplane.openai_endpoint.logprobs import read_logprobs

_DISPOSITIONS = {"stop": Disposition.STOP, "length": Disposition.LENGTH}
_FAILURES = frozenset({"abort", "error"})
"""What vLLM and SGLang call an answer that they gave up themselves."""
_NOT_CONTENT = frozenset({"role", "content"})


class MalformedChunkError(Exception):
    """The endpoint sent something that is no chunk of an OpenAI stream."""


@dataclass(slots=True)
class _Choice:
    """How far one sequence has come."""

    num_chunks: int = 0
    finish_reason: str | None = None
    is_told: bool = False
    """Its end was told."""


@dataclass(slots=True)
class ChunkReader:
    """Turns one stream's chunks into events; remembers what only the end of it tells."""

    num_sequences: int = 1
    num_prompt_tokens: int | None = None
    num_output_tokens: int | None = None
    num_cached_tokens: int | None = None
    """Of the prompt; None: it does not say."""
    _choices: dict[int, _Choice] = field(default_factory=dict)
    _num_reported: int = 0

    def __post_init__(self) -> None:
        self._choices = {index: _Choice() for index in range(self.num_sequences)}

    def read(self, chunk: Mapping[str, Any]) -> Iterator[EngineEvent]:
        """The events that `chunk` amounts to; none for a role, a usage count, an empty delta.

        A sequence's end is told at once, but for the last one's: usage may follow it. Raises
        MalformedChunkError.
        """
        if not isinstance(chunk, Mapping):
            raise MalformedChunkError(f"no object: {str(chunk)[:200]}")
        choices = chunk.get("choices")
        self._read_usage(chunk.get("usage"), is_report=choices == [])
        self._read_timings(chunk.get("timings"))
        if not isinstance(choices, list):
            raise MalformedChunkError(f"no list of choices in it: {str(chunk)[:200]}")
        for choice in choices:
            if not isinstance(choice, Mapping):
                raise MalformedChunkError(f"a choice is no object: {str(chunk)[:200]}")
            yield from self._read_choice(choice)

    def end(self) -> list[EngineEvent]:
        """FINISHED of what has not ended yet, once the stream has."""
        open_choices = {i: choice for i, choice in self._choices.items() if not choice.is_told}
        unended = [index for index, c in open_choices.items() if c.finish_reason is None]
        if unended:
            which = f" of choice {unended[0]}" if self.num_sequences > 1 else ""
            return [
                EngineEvent(
                    kind=EventKind.FINISHED,
                    disposition=Disposition.ERROR,
                    status_code=502,
                    reason=f"the endpoint ended its stream without a finish reason{which}",
                )
            ]
        return [self._finished(index, choice) for index, choice in open_choices.items()]

    def _read_choice(self, said: Mapping[str, Any]) -> Iterator[EngineEvent]:
        index = said.get("index", 0)
        choice = self._choices.get(index) if isinstance(index, int) else None
        if choice is None:
            raise MalformedChunkError(f"a choice of number {index!r}, of {self.num_sequences}")
        event = self._read_content(index, choice, said)
        if event is not None:
            if choice.is_told:
                raise MalformedChunkError(f"choice {index} goes on after its finish reason")
            yield event
        reason = said.get("finish_reason")
        if isinstance(reason, str) and reason:
            choice.finish_reason = reason
        if choice.finish_reason is not None and not choice.is_told and self._has_others(choice):
            yield self._finished(index, choice)

    def _read_content(
        self, index: int, choice: _Choice, said: Mapping[str, Any]
    ) -> EngineEvent | None:
        delta = said.get("delta")
        told = delta if isinstance(delta, Mapping) else {}
        text = said.get("text") or told.get("content")
        if text is not None and not isinstance(text, str):
            raise MalformedChunkError(f"its content is no text: {str(said)[:200]}")
        extra = {k: v for k, v in told.items() if k not in _NOT_CONTENT and v not in _NOTHING}
        logprobs = read_logprobs(said.get("logprobs"))
        if not (text or extra or logprobs):
            return None
        choice.num_chunks += 1
        return EngineEvent(
            kind=EventKind.FIRST_TOKEN if choice.num_chunks == 1 else EventKind.TOKENS,
            sequence=index,
            num_tokens=_num_tokens(logprobs),
            text=text or "",
            delta=extra or None,
            logprobs=logprobs,
        )

    def _has_others(self, choice: _Choice) -> bool:
        return any(not other.is_told for other in self._choices.values() if other is not choice)

    def _finished(self, index: int, choice: _Choice) -> EngineEvent:
        choice.is_told = True
        said = choice.finish_reason or ""
        if said in _FAILURES:
            return EngineEvent(
                kind=EventKind.FINISHED,
                sequence=index,
                disposition=Disposition.ERROR,
                status_code=502,
                reason=f"the endpoint gave the answer up: its finish reason is {said}",
            )
        # Anything else a server may say (content_filter, tool_calls) ended of its own accord.
        return EngineEvent(
            kind=EventKind.FINISHED,
            sequence=index,
            disposition=_DISPOSITIONS.get(said, Disposition.STOP),
            finish_reason=said,
            reason=None if said in _DISPOSITIONS else said,
            num_prompt_tokens=self.num_prompt_tokens,
            num_output_tokens=self.num_output_tokens,
            num_cached_tokens=self.num_cached_tokens,
        )

    def _read_usage(self, usage: object, is_report: bool) -> None:
        """Beside an answer it is a total so far. In a chunk of its own it is of all answers, or,
        as llama.cpp tells it, of the answer that just ended: these add up."""
        if not isinstance(usage, Mapping):
            return
        self.num_prompt_tokens = _count(usage.get("prompt_tokens"), self.num_prompt_tokens)
        told = _count(usage.get("completion_tokens"), None)
        if told is not None:
            self._num_reported += told if is_report else 0
            self.num_output_tokens = self._num_reported if is_report else told
        details = usage.get("prompt_tokens_details")
        if isinstance(details, Mapping):
            self.num_cached_tokens = _count(details.get("cached_tokens"), self.num_cached_tokens)

    def _read_timings(self, timings: object) -> None:
        """llama.cpp's, in its last chunks."""
        if isinstance(timings, Mapping):
            self.num_cached_tokens = _count(timings.get("cache_n"), self.num_cached_tokens)


_NOTHING: tuple[object, ...] = (None, "", [], {})


def _num_tokens(logprobs: tuple[TokenLogprob, ...]) -> int:
    return len(logprobs) or 1


def _count(value: object, known: int | None) -> int | None:
    """`value` where it can be a count of tokens; otherwise what is known already."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return known
    return value
