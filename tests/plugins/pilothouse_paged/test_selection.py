"""What a request's parameters change in the choice of a token, and what is told of it."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from dataplane.engine import EngineRequest, SamplingParams
from dataplane.host.core import CoreEvent, TokenScore
from dataplane.scheduling.sequence import Sequence
from pilothouse_paged.adjustment import LogitAdjustment
from pilothouse_paged.core import PagedEngineCore
from pilothouse_paged.selection import Selector, select_tokens
from tests.plugins.pilothouse_paged.tiny_model import END_ID, SHAPE, build_tiny_core

LOGITS = torch.tensor([1.0, 3.0, -2.0, 0.5])


def adjusted(output: list[int], prompt: tuple[int, ...] = (), **sampling: Any) -> list[float]:
    params = SamplingParams(max_output_tokens=8, **sampling)
    adjustment = LogitAdjustment(params, prompt, end_token_ids=(3,))
    assert adjustment.is_needed(len(output))
    values: list[float] = adjustment.apply(LOGITS, output).tolist()
    return values


def test_bias_is_added_to_the_tokens_it_names() -> None:
    assert adjusted([], logit_bias=((1, -100.0), (2, 5.0))) == [1.0, -97.0, 3.0, 0.5]


def test_presence_counts_once_and_frequency_every_time() -> None:
    assert adjusted([1, 1, 0], presence_penalty=0.5) == [0.5, 2.5, -2.0, 0.5]
    assert adjusted([1, 1, 0], frequency_penalty=0.5) == [0.5, 2.0, -2.0, 0.5]
    assert adjusted([1, 1], presence_penalty=1.0, frequency_penalty=0.25)[1] == 1.5


def test_neither_counts_the_prompt_but_repetition_does() -> None:
    assert adjusted([], prompt=(1, 2), presence_penalty=1.0) == LOGITS.tolist()
    assert adjusted([0], prompt=(1, 2), repetition_penalty=2.0) == [0.5, 1.5, -4.0, 0.5]


def test_the_end_is_masked_until_the_output_is_long_enough() -> None:
    assert adjusted([0], min_output_tokens=2)[3] == -math.inf
    late = LogitAdjustment(SamplingParams(max_output_tokens=8, min_output_tokens=2), (), (3,))
    assert not late.is_needed(2)


def test_an_output_that_grows_is_counted_as_one_that_is_given_whole() -> None:
    params = SamplingParams(
        max_output_tokens=8, frequency_penalty=0.5, presence_penalty=0.1, repetition_penalty=1.5
    )
    growing = LogitAdjustment(params, (2,), (3,))
    for length in range(4):
        fresh = LogitAdjustment(params, (2,), (3,))
        output = [1, 0, 1][:length]
        assert torch.equal(growing.apply(LOGITS, output), fresh.apply(LOGITS, output))


def test_the_given_logits_stay_as_they_are() -> None:
    before = LOGITS.clone()
    adjusted([1], logit_bias=((0, 1.0),), presence_penalty=1.0, repetition_penalty=2.0)
    assert torch.equal(before, LOGITS)


def select_one(**sampling: Any) -> tuple[int, TokenScore]:
    params = SamplingParams(max_output_tokens=8, **sampling)
    sequence = Sequence(request_id="r", sequence_id=0, prompt_token_ids=(0,), max_output_tokens=8)
    adjustment = LogitAdjustment(params, (0,), ())
    selector = Selector(sequence=sequence, sampling=params, seed=1, adjustment=adjustment)
    (selected,) = select_tokens(LOGITS[None], [selector])
    assert selected.score is not None
    return selected.token_id, selected.score


@pytest.mark.parametrize(
    "changes", [{}, {"logit_bias": ((2, 100.0),)}, {"temperature": 2.0, "top_k": 1}]
)
def test_scores_are_of_the_models_own_distribution(changes: dict[str, Any]) -> None:
    sampling = {"temperature": 0.0, "num_logprobs": 2} | changes
    token_id, score = select_one(**sampling)
    own = torch.log_softmax(LOGITS, dim=-1)
    assert token_id == (2 if "logit_bias" in changes else 1)
    assert score.logprob == pytest.approx(float(own[token_id]))
    assert [top_id for top_id, _ in score.top] == [1, 0]
    assert [logprob for _, logprob in score.top] == pytest.approx(own[[1, 0]].tolist())


def events_of(core: PagedEngineCore, **sampling: Any) -> Iterator[CoreEvent]:
    yield from core.add(
        EngineRequest(
            request_id="r",
            attempt=0,
            endpoint="/v1/completions",
            prompt_token_ids=(5, 6, 7, 8, 9),
            sampling=SamplingParams(**{"max_output_tokens": 12, "temperature": 0.0} | sampling),
        )
    )
    while core.has_work:
        yield from core.schedule()
        yield from core.run()


def output_of(core: PagedEngineCore, **sampling: Any) -> list[int]:
    return [token_id for event in events_of(core, **sampling) for token_id in event.token_ids]


def test_parameters_reach_the_choice_through_the_whole_engine() -> None:
    core = build_tiny_core(max_model_len=64)
    plain = output_of(core, ignore_eos=True)
    assert output_of(core, ignore_eos=True) == plain
    banned = output_of(core, ignore_eos=True, logit_bias=((plain[0], -100.0),))
    assert plain[0] not in banned
    forced = output_of(core, logit_bias=((END_ID, 100.0),))
    assert forced == [END_ID]
    late = output_of(core, logit_bias=((END_ID, 100.0),), min_output_tokens=4)
    assert (len(late), late[-1]) == (5, END_ID)
    varied = output_of(core, ignore_eos=True, frequency_penalty=2.0, presence_penalty=2.0)
    assert len(set(varied)) >= len(set(plain))


def test_every_token_of_every_sequence_is_scored_where_it_was_asked_for() -> None:
    core = build_tiny_core(max_model_len=64)
    told = list(events_of(core, num_logprobs=3, num_sequences=2, temperature=1.0, seed=3))
    scored = [event for event in told if event.token_ids]
    assert {event.sequence for event in scored} == {0, 1}
    for event in scored:
        assert [score.token_id for score in event.scores] == list(event.token_ids)
        assert [len(score.top) for score in event.scores] == [3]
        assert event.scores[0].logprob <= event.scores[0].top[0][1] + 1e-6
    assert not any(event.scores for event in events_of(core))


def test_a_bias_outside_the_vocabulary_is_refused() -> None:
    core = build_tiny_core(max_model_len=64)
    (refused,) = events_of(core, logit_bias=((SHAPE.vocab_size, 1.0),))
    assert "outside the model's vocabulary" in (refused.reason or "")
