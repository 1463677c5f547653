"""What a prompt budget trades: first tokens of the new against gaps of those who decode.

A case is small and known to the last digit: what each part of a step costs, who decodes at
time zero, who arrives when. It runs on the real scheduler, in whole ticks (`DecimalScale`), so
that what comes out is exactly what the costs say. Blocks never bind, nothing is cached, and a
replica with nothing to do waits for the next arrival.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.decimal_scale import DecimalScale
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.step_log import StepLog
from dataplane.simulation.timeline import Timeline

_BLOCK_SIZE = 64
"""Tokens. Any would do: nothing here depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalCost:
    """What the parts of a step cost, in milliseconds."""

    iteration: Decimal
    per_prompt_token: Decimal
    per_decode_step: Decimal
    per_reread_token: Decimal = Decimal(0)
    """Of each prompt position before the start of a continued prefill."""

    @property
    def values(self) -> tuple[Decimal, ...]:
        """All four."""
        return (
            self.iteration,
            self.per_prompt_token,
            self.per_decode_step,
            self.per_reread_token,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request that arrives while others decode."""

    request_id: str
    at_ms: Decimal
    num_prompt_tokens: int
    num_decodes: int
    """Decode steps after its first token, which its prefill selects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCase:
    """Costs, bounds and requests; only the prompt budget is open.

    Raises ValueError for what contradicts itself.
    """

    cost: DecimalCost
    num_slots: int
    max_batch_tokens: int
    """Of one iteration, prompt and decode together."""
    decoding: Mapping[str, int]
    """Decode steps that those still need which selected a token at time zero."""
    arrivals: ReadableSequence[Arrival]

    def __post_init__(self) -> None:
        names = [*self.decoding, *(arrival.request_id for arrival in self.arrivals)]
        if len(set(names)) < len(names):
            raise ValueError("two requests have the same name")
        num_decoding = sum(steps > 0 for steps in self.decoding.values())
        if num_decoding > min(self.num_slots, self.max_batch_tokens):
            raise ValueError(
                f"{num_decoding} requests decode at zero, one token each, in {self.num_slots} "
                f"slots and {self.max_batch_tokens} tokens an iteration"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillRun:
    """What a case came to under one prompt budget. Times are in ticks of `scale`, 1 ms = 1 unit."""

    prompt_budget: int
    scale: DecimalScale
    first_selection_after_arrival: Mapping[str, int]
    largest_gap: int | None
    """Of those who decoded at zero, between two of their tokens; None when nobody did."""
    finish: int
    num_iterations: int
    overhead: int
    """What the iterations cost without any work in them."""
    num_prompt_tokens: int
    num_decode_steps: int
    num_reread_tokens: int
    table: tuple[str, ...]
    """One line an iteration: `3-8 A:D1 C:P4` decodes one token of A and computes four of C."""


def run_case(case: PrefillCase, prompt_budget: int) -> PrefillRun:
    """Let the case run until everything is finished."""
    arrivals_ms = [arrival.at_ms for arrival in case.arrivals]
    scale = DecimalScale.of([*case.cost.values, *arrivals_ms])
    timeline = Timeline()
    log = StepLog(timeline)
    scheduler = _decoding(_config(case, prompt_budget), case.decoding)
    replica = SimulatedReplica(timeline, scheduler, _cost(case.cost, scale), log)
    for number, arrival in enumerate(case.arrivals, start=len(case.decoding)):
        timeline.at(scale.ticks(arrival.at_ms), partial(replica.submit, _arriving(number, arrival)))
    replica.wake()
    timeline.run()
    return _summary(case, prompt_budget, scale, log)


def _config(case: PrefillCase, prompt_budget: int) -> SchedulerConfig:
    """There are blocks for all sequences at once, and one more for each to look forward to.

    More slots than requests are never used. Nor are more than the tokens of an iteration: all
    but the last of those that hold a slot have one there, and that one waits for none.
    """
    lengths = [len(case.decoding) + 2 + steps for steps in case.decoding.values()]
    lengths += [a.num_prompt_tokens + 1 + a.num_decodes for a in case.arrivals]
    return SchedulerConfig(
        max_num_seqs=max(1, min(case.num_slots, len(lengths), case.max_batch_tokens)),
        max_num_batched_tokens=case.max_batch_tokens,
        max_prefill_tokens_per_step=prompt_budget,
        max_model_len=max(lengths, default=1),
        num_blocks=sum(length // _BLOCK_SIZE + 2 for length in lengths) + 1,
        block_size=_BLOCK_SIZE,
        is_prefix_caching=False,
    )


def _cost(cost: DecimalCost, scale: DecimalScale) -> LinearCost:
    return LinearCost(
        iteration=scale.ticks(cost.iteration),
        per_prompt_token=scale.ticks(cost.per_prompt_token),
        per_decode_step=scale.ticks(cost.per_decode_step),
        per_reread_token=scale.ticks(cost.per_reread_token),
    )


def _arriving(number: int, arrival: Arrival) -> Sequence:
    return Sequence(
        request_id=arrival.request_id,
        sequence_id=number,
        prompt_token_ids=range(arrival.num_prompt_tokens),
        max_output_tokens=1 + arrival.num_decodes,
        script=range(1 + arrival.num_decodes),
    )


def _decoding(config: SchedulerConfig, steps: Mapping[str, int]) -> Scheduler:
    """A scheduler in which each request just selected a token and needs `steps` more.

    A scheduler takes new sequences only. So it runs ahead of time zero until each has its
    first token; by then the earlier ones have several. How many is tried out beforehand.
    """
    needed = {name: count for name, count in steps.items() if count > 0}
    lead = _run_ahead(Scheduler(config), dict.fromkeys(needed, len(needed) + 1))
    scheduler = Scheduler(config)
    _run_ahead(scheduler, {name: lead[name] + count for name, count in needed.items()})
    return scheduler


def _run_ahead(scheduler: Scheduler, lengths: Mapping[str, int]) -> dict[str, int]:
    """Step until each has a token; how many each has then. `lengths` are all they will select."""
    sequences = [
        Sequence(
            request_id=name,
            sequence_id=number,
            prompt_token_ids=(0,),
            max_output_tokens=length,
            script=range(length),
        )
        for number, (name, length) in enumerate(lengths.items())
    ]
    for sequence in sequences:
        scheduler.add(sequence)
    while not all(sequence.num_output_tokens for sequence in sequences):
        scheduler.commit(scheduler.schedule())
    return {sequence.request_id: sequence.num_output_tokens for sequence in sequences}


def _summary(case: PrefillCase, budget: int, scale: DecimalScale, log: StepLog) -> PrefillRun:
    gaps = (log.largest_gap(name, since=0) for name in case.decoding)
    steps = log.steps
    return PrefillRun(
        prompt_budget=budget,
        scale=scale,
        first_selection_after_arrival={
            arrival.request_id: int(log.selected_at[arrival.request_id][0])
            - scale.ticks(arrival.at_ms)
            for arrival in case.arrivals
        },
        largest_gap=max((int(gap) for gap in gaps if gap is not None), default=None),
        finish=int(steps[-1].end) if steps else 0,
        num_iterations=len(steps),
        overhead=len(steps) * scale.ticks(case.cost.iteration),
        num_prompt_tokens=sum(step.num_prompt_tokens for step in steps),
        num_decode_steps=sum(step.num_decode_steps for step in steps),
        num_reread_tokens=sum(step.num_reread_tokens for step in steps),
        table=tuple(_lines(log, scale)),
    )


def _lines(log: StepLog, scale: DecimalScale) -> Iterable[str]:
    for step in log.steps:
        span = f"{scale.text(int(step.start))}-{scale.text(int(step.end))}"
        yield " ".join((span, *map(str, step.chunks)))
