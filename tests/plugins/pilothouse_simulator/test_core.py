"""The simulator's core: answers that depend on the request alone, and time that costs say."""

import itertools
from typing import Any

import pytest

from dataplane.lifecycle import Disposition, EventKind
from tests.plugins.pilothouse_simulator.virtual_core import (
    END_ID,
    WORDS,
    VirtualWaiting,
    answers_of,
    ask,
    build_core,
    make_request,
    serve,
)

COST_MS = {
    "iteration": 8.0,
    "per_prompt_token": 2.0,
    "per_decode_step": 4.0,
    "per_reread_token": 0.5,
    "per_context_token": 0.25,
}


def test_an_answer_has_the_length_that_the_settings_say_and_ends_with_the_end() -> None:
    answer = ask(build_core(output_tokens={"constant": 7}))
    assert len(answer) == 7
    assert answer[-1] == END_ID
    assert set(answer[:-1]) <= set(WORDS)


def test_a_limit_ends_an_answer_before_its_length() -> None:
    core = build_core(output_tokens={"constant": 7})
    core.add(make_request(max_output_tokens=3))
    events = list(serve(core))
    assert len(answers_of(events)[0]) == 3
    (end,) = [event for event in events if event.kind is EventKind.FINISHED]
    assert end.disposition is Disposition.LENGTH


def test_who_ignores_the_end_gets_as_much_as_was_asked_for() -> None:
    answer = ask(build_core(output_tokens={"constant": 7}), max_output_tokens=20, ignore_eos=True)
    assert len(answer) == 20
    assert END_ID not in answer


def test_an_answer_is_no_shorter_than_asked_for() -> None:
    answer = ask(build_core(output_tokens={"constant": 2}), min_output_tokens=5)
    assert (len(answer), answer[-1]) == (6, END_ID)


def test_lengths_vary_around_their_median_from_seed_to_seed() -> None:
    core = build_core(output_tokens={"median": 40.0, "sigma": 0.5, "most": 90})
    lengths = [len(ask(core, request_id=f"r{seed}", seed=seed)) for seed in range(101)]
    assert 30 < sorted(lengths)[50] < 50
    assert len(set(lengths)) > 30
    assert max(lengths) <= 90


def test_a_seed_gives_the_same_answer_again_whoever_else_is_in_the_batch() -> None:
    alone = ask(build_core(), seed=11, max_output_tokens=150)
    core = build_core(num_blocks=12, max_num_seqs=4)
    for index in range(8):
        other = make_request(f"other-{index}", (index + 1,) * 9, max_output_tokens=150, seed=index)
        core.add(other)
    core.add(make_request("r", seed=11, max_output_tokens=150))
    events = list(serve(core))
    assert any(event.kind is EventKind.PREEMPTED for event in events)
    assert answers_of(events)[0] == alone
    assert ask(build_core(), seed=12, max_output_tokens=150) != alone


def test_a_greedy_request_has_one_answer_whatever_its_seed() -> None:
    core = build_core()
    first = ask(core, temperature=0.0, seed=1)
    assert ask(core, temperature=0.0, seed=2) == first
    assert ask(core, temperature=0.0) == first
    assert ask(core, prompt=(5, 6, 8), temperature=0.0) != first


def test_requests_without_a_seed_get_the_same_answers_in_the_same_order() -> None:
    def both(seed: int) -> tuple[list[int], list[int]]:
        core = build_core(seed=seed)
        return ask(core), ask(core)

    first, second = both(seed=3)
    assert first != second
    assert both(seed=3) == (first, second)
    assert both(seed=4) != (first, second)


def test_sequences_of_a_request_share_its_prompt_and_answer_each_for_itself() -> None:
    core = build_core(num_blocks=600, block_size=2, output_tokens={"constant": 6})
    core.add(make_request(prompt=(1, 2, 3, 4, 5), num_sequences=3, seed=7))
    events = list(serve(core))
    answers = answers_of(events)
    assert sorted(answers) == [0, 1, 2]
    assert len({tuple(answer) for answer in answers.values()}) == 3
    chunks = [e.num_tokens for e in events if e.kind is EventKind.PREFILL_CHUNK]
    assert chunks == [5, 1, 1]


def test_a_step_takes_what_its_work_costs() -> None:
    waiting = VirtualWaiting()
    core = build_core(
        waiting, cost_model_ms=COST_MS, max_prefill_tokens_per_step=4, output_tokens={"constant": 3}
    )
    core.add(make_request(prompt=tuple(range(1, 7))))
    events = list(serve(core))
    at = {kind: [e.at for e in events if e.kind is kind] for kind in EventKind}
    prefill = [8 + 4 * 2, 8 + 2 * 2 + 4 * 0.5]
    decode = [8 + 4 + 7 * 0.25, 8 + 4 + 8 * 0.25]
    assert at[EventKind.SCHEDULED] == [0.0]
    assert at[EventKind.FIRST_TOKEN] == [pytest.approx(sum(prefill) / 1000)]
    assert at[EventKind.TOKENS] == pytest.approx(
        [(sum(prefill) + decode[0]) / 1000, (sum(prefill) + sum(decode)) / 1000]
    )
    assert at[EventKind.FINISHED] == at[EventKind.RELEASED] == at[EventKind.TOKENS][-1:]


def test_time_can_be_scaled() -> None:
    def seconds(time_scale: float) -> float:
        waiting = VirtualWaiting()
        ask(build_core(waiting, time_scale=time_scale, output_tokens={"constant": 9}))
        return waiting.now()

    assert seconds(0.25) == pytest.approx(seconds(1.0) / 4)


def test_a_prefix_that_was_computed_is_found_within_a_tenant_alone() -> None:
    core = build_core(num_blocks=600, block_size=2, output_tokens={"constant": 2})
    cached = []
    for request_id, tenant in (("first", "a"), ("other", "b"), ("again", "a")):
        core.add(make_request(request_id, (1, 2, 3, 4, 5), isolation_key=tenant))
        cached += [e.num_cached_tokens for e in serve(core) if e.kind is EventKind.PREFILL_CHUNK]
    assert cached == [0, 0, 4]


def test_only_parameters_that_change_an_answer_are_taken() -> None:
    taken = build_core().capabilities.parameters
    assert taken == {"ignore_eos", "min_tokens", "n"}


@pytest.mark.parametrize(
    ("settings", "num_blocks"),
    [
        ({"num_blocks": None}, 1024),
        ({"num_blocks": 9, "max_model_len": 100}, 9),
        (
            {
                "memory": {"weights": "6MiB", "kv_per_token": "16KiB", "device": "16MiB"},
                "num_blocks": None,
            },
            40,
        ),
    ],
)
def test_the_pool_is_as_large_as_told_or_as_fits(settings: dict[str, Any], num_blocks: int) -> None:
    assert build_core(**settings).stats().num_blocks == num_blocks


def test_the_ledger_is_the_native_engines_and_adds_up_to_the_device() -> None:
    memory = {
        "weights": "6MiB", "kv_per_token": "16KiB", "workspace": "1MiB", "reserve": "1MiB",
        "device": "20MiB",
    }  # fmt: skip
    ledger = build_core(memory=memory, num_blocks=40).stats().ledger
    assert ledger is not None
    assert sum(ledger.values()) == 20 * 2**20
    assert ledger["kv"] == 40 * 16 * 16 * 2**10
    assert build_core().stats().ledger is None


class LateWaiting(VirtualWaiting):
    """Everybody else takes a millisecond between two looks at the clock."""

    def now(self) -> float:
        self.until(super().now() + 0.001)
        return super().now()


def test_what_telling_takes_is_part_of_the_next_step_and_of_no_first_one() -> None:
    cost_ms = {"iteration": 50.0} | dict.fromkeys(COST_MS.keys() - {"iteration"}, 0.0)
    core = build_core(LateWaiting(), cost_model_ms=cost_ms, output_tokens={"constant": 41})
    core.add(make_request())
    events = list(serve(core))
    told = [e.at for e in events if e.kind in (EventKind.FIRST_TOKEN, EventKind.TOKENS)]
    gaps = [after - before for before, after in itertools.pairwise(told)]
    assert sum(gaps) / len(gaps) == pytest.approx(0.05, abs=0.0001)
    core.add(make_request("later"))
    later = list(serve(core))
    scheduled, first = (
        next(e.at for e in later if e.kind is kind)
        for kind in (EventKind.SCHEDULED, EventKind.FIRST_TOKEN)
    )
    assert first - scheduled >= 0.05
