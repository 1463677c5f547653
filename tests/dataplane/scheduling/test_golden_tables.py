"""Drives the real scheduler through the golden tables; only the cost of a step lives here."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig, StepPlan
from dataplane.scheduling.sequence import Sequence

GOLDEN_DIR = Path(__file__).parents[2] / "golden"
SCHEDULING: dict[str, Any] = YAML(typ="safe").load(GOLDEN_DIR / "scheduling.yaml")
LIFECYCLE: dict[str, Any] = YAML(typ="safe").load(GOLDEN_DIR / "lifecycle.yaml")
BATCHING, CHUNKED = SCHEDULING["batching"], SCHEDULING["chunked_prefill"]
TOKEN = 7


def selections(plan: StepPlan) -> dict[int, int]:
    return {c.sequence.sequence_id: TOKEN for c in plan.chunks if c.selects_token}


def cost_ms(plan: StepPlan) -> float:
    model = CHUNKED["cost_model_ms"]
    return float(
        model["iteration"]
        + model["per_prompt_token"] * plan.num_prompt_tokens
        + model["per_decode_step"] * plan.num_decode_steps
        + model["per_earlier_prompt_position_reread"] * num_reread(plan)
    )


def num_reread(plan: StepPlan) -> int:
    return sum(c.start for c in plan.chunks if c.is_prefill)


def describe(plan: StepPlan, start_ms: float, end_ms: float) -> str:
    work = " ".join(
        f"{c.sequence.request_id}:{'P' if c.is_prefill else 'D'}{c.num_tokens}"
        for c in sorted(plan.chunks, key=lambda c: c.sequence.request_id)
    )
    return f"{start_ms:g}-{end_ms:g} {work}"


@dataclass
class Replay:
    """The golden case in virtual time: a scheduler, arrivals, and what was seen."""

    scheduler: Scheduler
    now_ms: float = 0.0
    plans: list[StepPlan] = field(default_factory=list)
    table: list[str] = field(default_factory=list)
    selected_at_ms: dict[str, list[float]] = field(default_factory=dict)
    num_added: int = 0

    def add(self, name: str, num_prompt: int, max_output: int) -> Sequence:
        self.num_added += 1
        sequence = Sequence(
            request_id=name,
            sequence_id=self.num_added,
            prompt_token_ids=tuple(range(num_prompt)),
            max_output_tokens=max_output,
        )
        assert self.scheduler.add(sequence) is None
        return sequence

    def start_decoding(self, steps_needed: dict[str, int]) -> None:
        """Bring one-token prompts to their first selection; what this takes is not measured."""
        sequences = {n: self.add(n, 1, max_output=1000) for n in steps_needed}
        while not all(s.output_token_ids for s in sequences.values()):
            plan = self.scheduler.schedule()
            self.scheduler.commit(plan, selections(plan))
        for name, sequence in sequences.items():
            sequence.max_output_tokens = sequence.num_output_tokens + steps_needed[name]
            self.selected_at_ms[name] = [0.0]

    def step(self) -> None:
        plan = self.scheduler.schedule()
        start_ms, self.now_ms = self.now_ms, self.now_ms + cost_ms(plan)
        self.plans.append(plan)
        self.table.append(describe(plan, start_ms, self.now_ms))
        for chunk in plan.chunks:
            if chunk.selects_token:
                times = self.selected_at_ms.setdefault(chunk.sequence.request_id, [])
                times.append(self.now_ms)
        self.scheduler.commit(plan, selections(plan))
        self.scheduler.check_integrity()

    def run(self, arrivals: list[dict[str, Any]]) -> None:
        pending = list(arrivals)
        while pending or self.scheduler.stats.num_running + self.scheduler.stats.num_waiting:
            while pending and pending[0]["at_ms"] <= self.now_ms:
                arrival = pending.pop(0)
                self.add(arrival["request"], arrival["prompt"], 1 + arrival["decode_after_first"])
            self.step()

    def largest_gap_ms(self, names: dict[str, int]) -> float:
        return max(
            later - earlier
            for name in names
            for earlier, later in pairwise(self.selected_at_ms[name])
        )


def replay_chunked_prefill(prompt_budget: int) -> Replay:
    given = CHUNKED["given"]
    replay = Replay(
        Scheduler(
            SchedulerConfig(
                max_num_seqs=given["slots"],
                max_num_batched_tokens=given["total_batch_tokens"],
                max_prefill_tokens_per_step=prompt_budget,
                max_model_len=4096,
                num_blocks=4096,
                block_size=4,
            )
        )
    )
    replay.start_decoding(given["decoding_at_zero"])
    replay.run(given["arrivals"])
    return replay


@pytest.mark.parametrize("expected", CHUNKED["expect"], ids=lambda e: f"budget{e['prompt_budget']}")
def test_prompt_budgets_trade_first_tokens_for_gaps(expected: dict[str, Any]) -> None:
    replay = replay_chunked_prefill(expected["prompt_budget"])
    given, plans = CHUNKED["given"], replay.plans
    seen: dict[str, Any] = {
        "prompt_budget": expected["prompt_budget"],
        "first_selection_after_arrival_ms": {
            a["request"]: pytest.approx(replay.selected_at_ms[a["request"]][0] - a["at_ms"])
            for a in given["arrivals"]
        },
        "largest_gap_ms": {
            "A_or_B": pytest.approx(replay.largest_gap_ms(given["decoding_at_zero"]))
        },
        "finish_ms": pytest.approx(replay.now_ms),
        "iterations": len(plans),
        "overhead_ms": len(plans) * CHUNKED["cost_model_ms"]["iteration"],
        "prompt_tokens": sum(p.num_prompt_tokens for p in plans),
        "decode_steps": sum(p.num_decode_steps for p in plans),
        "earlier_positions_reread": sum(num_reread(p) for p in plans),
        "table": replay.table,
    }
    assert expected == {key: seen[key] for key in expected}


def test_continuous_batching_refills_a_slot_as_soon_as_it_is_free() -> None:
    given, expected = BATCHING["given"], BATCHING["expect"]
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=given["slots"],
            max_num_batched_tokens=64,
            max_model_len=64,
            num_blocks=64,
            block_size=4,
        )
    )
    replay = Replay(scheduler)
    for position, length in enumerate(given["output_lengths"]):
        replay.add(f"r{position}", 1, length)  # one prompt token: every step selects
    replay.run([])
    num_steps = len(replay.plans)
    num_selected = sum(len(times) for times in replay.selected_at_ms.values())
    assert num_steps == expected["continuous_steps"]
    assert num_selected == sum(given["output_lengths"])
    utilization = num_selected / (num_steps * given["slots"])
    assert round(utilization, 3) == expected["continuous_utilization"]


def test_what_is_cached_after_a_selection_is_everything_but_the_selected_token() -> None:
    """Invariant 4, along the golden table."""
    golden = LIFECYCLE["kv_after_each_step"]
    name_of = dict(enumerate(golden["prompt"]))
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=1,
            max_num_batched_tokens=64,
            max_model_len=64,
            num_blocks=8,
            block_size=2,
        )
    )
    sequence = Sequence(
        request_id="r",
        sequence_id=1,
        prompt_token_ids=tuple(name_of),
        max_output_tokens=len(golden["steps"]) + 1,
    )
    scheduler.add(sequence)
    for step in golden["steps"]:
        plan = scheduler.schedule()
        (chunk,) = plan.chunks
        names = [name_of[t] for t in sequence.tokens(0, sequence.num_tokens)]
        processed = names[chunk.start : chunk.start + chunk.num_tokens]
        assert processed == step["processed"] == step["wrote"]
        assert names[: chunk.start] == step["read"]
        assert len(sequence.block_table) * 2 >= step["cached_after"]  # reserved before it runs
        name_of[len(name_of)] = step["selects"]
        scheduler.commit(plan, {1: len(name_of) - 1})
        assert sequence.num_computed_tokens == step["cached_after"] == sequence.num_tokens - 1
        assert name_of[sequence.token_at(sequence.num_tokens - 1)] == step["selected_without_kv"]
