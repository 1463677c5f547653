"""From a core's token ids to events with text."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dataplane.engine import EngineRequest
from dataplane.host.core import CoreEvent, TokenScore
from dataplane.host.output import RequestOutput
from dataplane.lifecycle import Disposition, EventKind
from dataplane.tokenizer import Tokenizer
from tests.dataplane.tiny_gguf import END_ID

MakeRequest = Callable[..., EngineRequest]


def _tokens(ids: list[int], at: float = 11.0) -> CoreEvent:
    return CoreEvent(
        request_id="r1", kind=EventKind.TOKENS, at=at, num_tokens=len(ids), token_ids=tuple(ids)
    )


def _finished(
    disposition: Disposition = Disposition.LENGTH, reason: str | None = None
) -> CoreEvent:
    return CoreEvent(
        request_id="r1", kind=EventKind.FINISHED, at=12.0, disposition=disposition, reason=reason
    )


def test_times_become_offsets_from_the_submission(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    output = RequestOutput(make_request(), 10.0, tokenizer)
    told = output.convert(CoreEvent(request_id="r1", kind=EventKind.SCHEDULED, at=10.25))
    assert told is not None
    assert told.offset == pytest.approx(0.25)


def test_the_token_that_completes_a_stop_is_counted_and_later_ones_are_not(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    output = RequestOutput(make_request(stop=("cd",)), 10.0, tokenizer)
    told = output.convert(_tokens(tokenizer.encode("abcdef", allow_special=False)))
    assert told is not None
    assert (told.text, told.num_tokens, len(told.token_ids)) == ("ab", 4, 4)
    assert output.stopped() == [0]
    assert output.convert(_tokens(tokenizer.encode("x", allow_special=False))) is None
    end = output.convert(_finished())
    assert end is not None
    assert (end.disposition, end.text, end.num_output_tokens) == (Disposition.STOP, "", 4)


def test_held_text_leaves_with_the_end(tokenizer: Tokenizer, make_request: MakeRequest) -> None:
    output = RequestOutput(make_request(stop=("bcx",)), 10.0, tokenizer)
    told = output.convert(_tokens(tokenizer.encode("abc", allow_special=False)))
    assert told is not None
    assert told.text == "a"
    end = output.convert(_finished())
    assert end is not None
    assert (end.text, end.disposition) == ("bc", Disposition.LENGTH)


def test_an_end_token_counts_and_has_no_text(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    output = RequestOutput(make_request(), 10.0, tokenizer)
    told = output.convert(_tokens([*tokenizer.encode("a", allow_special=False), END_ID]))
    assert told is not None
    assert (told.text, told.num_tokens) == ("a", 2)


def test_half_a_character_at_the_end_is_shown_as_broken(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    output = RequestOutput(make_request(), 10.0, tokenizer)
    output.convert(_tokens(tokenizer.encode("é", allow_special=False)[:1]))
    end = output.convert(_finished())
    assert end is not None
    assert end.text == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(("was_scheduled", "status_code"), [(False, 400), (True, 500)])
def test_an_error_is_the_callers_only_before_work_began(
    tokenizer: Tokenizer, make_request: MakeRequest, was_scheduled: bool, status_code: int
) -> None:
    output = RequestOutput(make_request(), 10.0, tokenizer)
    if was_scheduled:
        output.convert(CoreEvent(request_id="r1", kind=EventKind.SCHEDULED, at=10.0))
    end = output.convert(_finished(Disposition.ERROR, "too long"))
    assert end is not None
    assert (end.status_code, end.reason) == (status_code, "too long")


def test_sequences_have_texts_stops_and_ends_of_their_own(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    output = RequestOutput(make_request(stop=("cd",), num_sequences=2), 10.0, tokenizer)
    ids = tokenizer.encode("abcdef", allow_special=False)
    for sequence in (0, 1):
        output.convert(replace(_tokens(ids[:3]), sequence=sequence))
    output.convert(replace(_tokens(ids[3:4]), sequence=1))
    assert output.stopped() == [1]
    end = output.convert(replace(_finished(), sequence=1))
    assert end is not None
    assert (end.disposition, end.num_output_tokens) == (Disposition.STOP, 7)
    assert not output.is_finished
    assert output.stopped() == []
    last = output.convert(_finished())
    assert last is not None
    assert (last.text, last.disposition) == ("c", Disposition.LENGTH)
    assert output.is_finished


def test_an_end_that_is_no_answer_ends_all_sequences(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    output = RequestOutput(make_request(num_sequences=3), 10.0, tokenizer)
    output.convert(_finished(Disposition.CANCELLED))
    assert output.is_finished


def test_scores_are_told_with_the_bytes_of_their_tokens(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    output = RequestOutput(make_request(), 10.0, tokenizer)
    half, _ = tokenizer.encode("é", allow_special=False)
    score = TokenScore(token_id=half, logprob=-0.5, top=((half, -0.5), (END_ID, -1.0)))
    told = output.convert(replace(_tokens([half]), scores=(score,)))
    assert told is not None
    (logprob,) = told.logprobs
    assert (logprob.token, logprob.utf8) == ("\N{REPLACEMENT CHARACTER}", b"\xc3")
    assert [(top.token, top.utf8) for top in logprob.top][1] == ("", None)
