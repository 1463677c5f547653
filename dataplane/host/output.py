"""From what an engine core says (token ids, its own clock) to what a gateway hears.

One `RequestOutput` follows one request, with a `_SequenceOutput` for each of its sequences:
ids become text, what may become a stop string is held back, and a sequence ends when one is
complete. Times become offsets from the moment the submission was received.
"""

from collections.abc import Iterable

from dataplane.detokenizer import Detokenizer
from dataplane.engine import EngineEvent, EngineRequest, TokenLogprob
from dataplane.host.core import CoreEvent, TokenScore
from dataplane.lifecycle import ANSWERS, Disposition, EventKind
from dataplane.stop_strings import StopMatcher
from dataplane.tokenizer import Tokenizer


class RequestOutput:
    """The output of one request, all its sequences."""

    def __init__(self, request: EngineRequest, received_at: float, tokenizer: Tokenizer) -> None:
        """`received_at` is on the core's clock."""
        self.was_scheduled = False
        """Engine work began."""
        self._received_at = received_at
        self._tokenizer = tokenizer
        self._end_reason: str | None = None
        self._end_status_code: int | None = None
        self._num_prompt_tokens = len(request.prompt_token_ids)
        self._sequences = [
            _SequenceOutput(tokenizer, request.sampling.stop)
            for _ in range(max(1, request.sampling.num_sequences))
        ]

    @property
    def num_output_tokens(self) -> int:
        """Of all sequences."""
        return sum(sequence.num_tokens for sequence in self._sequences)

    @property
    def is_finished(self) -> bool:
        """Every sequence has ended."""
        return all(sequence.is_finished for sequence in self._sequences)

    def stopped(self) -> list[int]:
        """Sequences that a stop string has ended and that the engine still has to be told of."""
        return [
            index
            for index, sequence in enumerate(self._sequences)
            if sequence.is_stopped and not sequence.is_finished
        ]

    def convert(self, event: CoreEvent) -> EngineEvent | None:
        """The event as the gateway hears it; None for tokens after a stop string.

        Raises ValueError for a token id outside the vocabulary.
        """
        match event.kind:
            case EventKind.FIRST_TOKEN | EventKind.TOKENS:
                return self._convert_tokens(event)
            case EventKind.FINISHED:
                return self._convert_finished(event)
            case EventKind.SCHEDULED:
                self.was_scheduled = True
        return EngineEvent(
            kind=event.kind,
            offset=self._offset(event),
            sequence=event.sequence,
            num_tokens=event.num_tokens,
            num_cached_tokens=event.num_cached_tokens,
            reason=event.reason,
            used=event.used,
        )

    def explain_end(self, reason: str | None, status_code: int | None) -> None:
        """What FINISHED is to say when it comes, because the host ends the request."""
        self._end_reason = reason
        self._end_status_code = status_code

    def _convert_tokens(self, event: CoreEvent) -> EngineEvent | None:
        sequence = self._sequences[event.sequence]
        if sequence.is_stopped:
            return None
        token_ids, text = sequence.take(event.token_ids)
        return EngineEvent(
            kind=event.kind,
            offset=self._offset(event),
            sequence=event.sequence,
            num_tokens=len(token_ids) if event.kind is EventKind.TOKENS else None,
            token_ids=token_ids,
            text=text,
            logprobs=tuple(self._describe(score) for score in event.scores[: len(token_ids)]),
        )

    def _convert_finished(self, event: CoreEvent) -> EngineEvent:
        sequence = self._sequences[event.sequence]
        text, disposition = sequence.end(), event.disposition
        if disposition not in ANSWERS:  # it ends the others, too
            for other in self._sequences:
                other.is_finished = True
        elif sequence.is_stopped:
            disposition = Disposition.STOP
        return EngineEvent(
            kind=EventKind.FINISHED,
            offset=self._offset(event),
            sequence=event.sequence,
            text=text,
            disposition=disposition,
            reason=self._end_reason or event.reason,
            status_code=self._status_code(disposition),
            num_prompt_tokens=self._num_prompt_tokens,
            num_output_tokens=self.num_output_tokens,
        )

    def _status_code(self, disposition: Disposition | None) -> int | None:
        if self._end_status_code is not None:
            return self._end_status_code
        if disposition is Disposition.ERROR:
            # What an engine refuses before it works on it is the caller's to change.
            return 500 if self.was_scheduled else 400
        return 400 if disposition is Disposition.INVALID else None

    def _describe(self, score: TokenScore) -> TokenLogprob:
        top = tuple(self._name(token_id, logprob) for token_id, logprob in score.top)
        return self._name(score.token_id, score.logprob, top)

    def _name(
        self, token_id: int, logprob: float, top: tuple[TokenLogprob, ...] = ()
    ) -> TokenLogprob:
        utf8 = self._tokenizer.get_bytes(token_id)
        return TokenLogprob(
            token=utf8.decode(errors="replace"), logprob=logprob, utf8=utf8 or None, top=top
        )

    def _offset(self, event: CoreEvent) -> float:
        return event.at - self._received_at


class _SequenceOutput:
    """The text of one sequence."""

    def __init__(self, tokenizer: Tokenizer, stops: Iterable[str]) -> None:
        self.num_tokens = 0
        self.is_stopped = False
        self.is_finished = False
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopMatcher(stops)

    def take(self, token_ids: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
        """The tokens up to the one that completes a stop string, and the text they make safe."""
        text = ""
        for index, token_id in enumerate(token_ids):
            self.num_tokens += 1
            text += self._add_text(self._detokenizer.add(token_id))
            if self.is_stopped:
                return token_ids[: index + 1], text
        return token_ids, text

    def end(self) -> str:
        """Nothing follows: what is left of the text."""
        self.is_finished = True
        if self.is_stopped:
            return ""
        return self._add_text(self._detokenizer.flush()) + self._stops.flush()

    def _add_text(self, fragment: str) -> str:
        result = self._stops.add(fragment)
        self.is_stopped = result.is_matched
        return result.text
