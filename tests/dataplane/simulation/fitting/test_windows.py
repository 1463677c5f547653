"""Requests whose steps can be counted by hand: a step takes a second."""

import pytest

from dataplane.simulation.fitting.served_request import ServedRequest
from dataplane.simulation.fitting.windows import Window, observe_windows
from dataplane.simulation.fitting.work import Work


def _request(
    scheduled_at: float,
    first_token_at: float,
    num_prompt: int,
    num_output: int,
    server: str = "vllm",
) -> ServedRequest:
    return ServedRequest(
        server=server,
        scheduled_at=scheduled_at,
        first_token_at=first_token_at,
        last_token_at=first_token_at + num_output - 1,
        num_prompt_tokens=num_prompt,
        num_output_tokens=num_output,
    )


def _decode(windows: list[Window], ended_at: float) -> Window:
    [found] = [each for each in windows if not each.is_prefill and each.ended_at == ended_at]
    return found


def test_a_request_alone_has_its_own_prompt_and_row() -> None:
    prefill, decode = observe_windows([_request(0.0, 1.0, num_prompt=10, num_output=5)])
    assert (prefill.is_prefill, decode.is_prefill) == (True, False)
    assert prefill.seconds == 1.0
    assert prefill.work == Work(10, 0, 0, 0, 55)
    assert decode.seconds == 1.0
    # It attends to 11, 12, 13 and 14 tokens.
    assert decode.work == Work(0, 1, 12.5, 0, 0)


def test_an_answer_of_one_token_has_no_decode() -> None:
    [prefill] = observe_windows([_request(0.0, 1.0, num_prompt=10, num_output=1)])
    assert prefill.is_prefill


def test_who_prefills_and_decodes_meanwhile_is_in_the_mean_step() -> None:
    long = _request(0.0, 1.0, num_prompt=10, num_output=11)
    short = _request(3.0, 4.0, num_prompt=20, num_output=3)
    windows = observe_windows([long, short])
    of_long = _decode(windows, ended_at=11.0)
    assert of_long.work.num_prompt_tokens == pytest.approx(20 / 10)
    assert of_long.work.num_decode_steps == pytest.approx((10 + 2) / 10)
    # The long one attends to 11 ... 20 tokens, the short one to 21 and 22.
    assert of_long.work.num_context_tokens == pytest.approx((155 + 43) / 10)
    of_short = _decode(windows, ended_at=6.0)
    assert of_short.work.num_decode_steps == pytest.approx(2)
    assert of_short.work.num_prompt_tokens == 0
    [prefill] = [each for each in windows if each.is_prefill and each.ended_at == 4.0]
    assert prefill.work.num_decode_steps == pytest.approx(1)
    # In the step from 3 to 4 the long one selects its fourth token: it attends to 13.
    assert prefill.work.num_context_tokens == pytest.approx(13)


def test_prompts_of_one_step_are_both_in_it() -> None:
    together = [_request(0.0, 1.0, 10, 4), _request(0.0, 1.0, 30, 4)]
    prefills = [each for each in observe_windows(together) if each.is_prefill]
    assert [each.work.num_prompt_tokens for each in prefills] == [40, 40]


def test_what_overlaps_in_part_counts_in_part() -> None:
    windows = observe_windows([_request(0.0, 1.0, 10, 7), _request(4.0, 5.0, 10, 7)])
    of_first = _decode(windows, ended_at=7.0)
    assert of_first.work.num_decode_steps == pytest.approx((6 + 2) / 6)


def test_what_is_long_over_or_on_another_server_is_in_no_step() -> None:
    alone = _request(20.0, 21.0, 10, 5)
    others = [_request(0.0, 1.0, 10, 5), _request(20.0, 21.0, 10, 5, server="another")]
    decodes = [each for each in observe_windows([alone, *others]) if not each.is_prefill]
    assert [each.work.num_decode_steps for each in decodes] == [1, 1, 1]
