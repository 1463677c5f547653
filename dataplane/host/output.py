"""From what an engine core says (token ids, its own clock) to what a gateway hears.

One `RequestOutput` follows one request. It turns ids into text, holds back what may
become a stop string, ends the request when one is complete, and gives times as offsets
from the moment the submission was received.
"""

from dataplane.detokenizer import Detokenizer
from dataplane.engine import EngineEvent, EngineRequest
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind
from dataplane.stop_strings import StopMatcher
from dataplane.tokenizer import Tokenizer


class RequestOutput:
    """The output of one request. An `EngineRequest` has one sequence."""

    def __init__(self, request: EngineRequest, received_at: float, tokenizer: Tokenizer) -> None:
        """`received_at` is on the core's clock."""
        self.is_stopped = False
        """A stop string was completed: the engine has to be told."""
        self.num_output_tokens = 0
        self._received_at = received_at
        self.was_scheduled = False
        """Engine work began."""
        self._end_reason: str | None = None
        self._end_status_code: int | None = None
        self._num_prompt_tokens = len(request.prompt_token_ids)
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopMatcher(request.sampling.stop)

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
        )

    def explain_end(self, reason: str | None, status_code: int | None) -> None:
        """What FINISHED is to say when it comes, because the host ends the request."""
        self._end_reason = reason
        self._end_status_code = status_code

    def _convert_tokens(self, event: CoreEvent) -> EngineEvent | None:
        if self.is_stopped:
            return None
        token_ids, text = self._select(event.token_ids)
        self.num_output_tokens += len(token_ids)
        return EngineEvent(
            kind=event.kind,
            offset=self._offset(event),
            sequence=event.sequence,
            num_tokens=len(token_ids) if event.kind is EventKind.TOKENS else None,
            token_ids=token_ids,
            text=text,
        )

    def _convert_finished(self, event: CoreEvent) -> EngineEvent:
        text = ""
        if not self.is_stopped:
            text = self._add_text(self._detokenizer.flush()) + self._stops.flush()
        disposition = Disposition.STOP if self.is_stopped else event.disposition
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

    def _select(self, token_ids: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
        """The tokens up to the one that completes a stop string, and the text they make safe."""
        text = ""
        for index, token_id in enumerate(token_ids):
            text += self._add_text(self._detokenizer.add(token_id))
            if self.is_stopped:
                return token_ids[: index + 1], text
        return token_ids, text

    def _add_text(self, fragment: str) -> str:
        result = self._stops.add(fragment)
        self.is_stopped = result.is_matched
        return result.text

    def _offset(self, event: CoreEvent) -> float:
        return event.at - self._received_at
