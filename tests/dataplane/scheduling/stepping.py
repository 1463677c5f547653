"""A scheduler of small bounds, and steps of it that select tokens no prompt contains."""

from dataplane.scheduling.scheduler import (
    Scheduler,
    SchedulerConfig,
    StepPlan,
)
from dataplane.scheduling.sequence import Sequence


def a_scheduler(
    *,
    num_blocks: int = 64,
    block_size: int = 4,
    slots: int = 4,
    batch: int = 64,
    prompt_budget: int | None = None,
    max_model_len: int = 128,
    caching: bool = True,
) -> Scheduler:
    return Scheduler(
        SchedulerConfig(
            max_num_seqs=slots,
            max_num_batched_tokens=batch,
            max_prefill_tokens_per_step=prompt_budget,
            max_model_len=max_model_len,
            num_blocks=num_blocks,
            block_size=block_size,
            is_prefix_caching=caching,
        )
    )


def add(
    scheduler: Scheduler,
    sequence_id: int,
    prompt: tuple[int, ...],
    max_output: int = 16,
    isolation_key: str = "",
    request_id: str | None = None,
) -> Sequence:
    sequence = Sequence(
        request_id=request_id or f"r{sequence_id}",
        sequence_id=sequence_id,
        prompt_token_ids=prompt,
        max_output_tokens=max_output,
        isolation_key=isolation_key,
    )
    assert scheduler.add(sequence) is None
    return sequence


def commit(scheduler: Scheduler, plan: StepPlan) -> list[Sequence]:
    """Select 100 + the number of tokens so far, a token that no prompt here contains."""
    selected = {
        c.sequence.sequence_id: 100 + c.sequence.num_tokens for c in plan.chunks if c.selects_token
    }
    ended = scheduler.commit(plan, selected)
    scheduler.check_integrity()
    return ended


def step(scheduler: Scheduler) -> StepPlan:
    plan = scheduler.schedule()
    scheduler.check_integrity()
    if plan.chunks:
        commit(scheduler, plan)
    return plan


def drain(scheduler: Scheduler) -> list[StepPlan]:
    plans = []
    while scheduler.has_work:
        plans.append(step(scheduler))
        assert len(plans) < 500, "it does not end"
    return plans


def unique_prompt(tag: int, length: int) -> tuple[int, ...]:
    return tuple(range(1000 * tag, 1000 * tag + length))
