"""Every mechanism of the golden files, each run in virtual time where it can be."""

from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.batching import Batching, BatchingReplica, Regime
from dataplane.simulation.cold_start import ColdStart, StartStage, ready_overlap
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.link import BITS_PER_BYTE, GIGA, Link, offered_bits_per_second
from dataplane.simulation.phase_split import Phase, PhaseDemand, PhaseSplit, best_split
from dataplane.simulation.prefill_wait import PrefillWait, least_wait
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound
from dataplane.simulation.step_log import StepLog
from dataplane.simulation.timeline import Timeline
from tests.dataplane.simulation.golden_cases import load_golden
from tests.dataplane.simulation.scripted_sequence import scripted

MECHANISMS = load_golden("mechanisms.yaml")
BATCHING = load_golden("scheduling.yaml")["batching"]
SPECULATIVE_ROUND = load_golden("lifecycle.yaml")["speculative_round"]
ONE_A_STEP = LinearCost(iteration=1, per_prompt_token=0, per_decode_step=0)


def test_every_golden_mechanism_is_in_this_file() -> None:
    assert MECHANISMS.keys() == {
        "prefix_hit_routing",
        "kv_transfer",
        "speculation",
        "burst_vs_readiness",
        "batching_regimes",
        "batch_disappears",
        "bursts_at_one_average_rate",
        "phase_split",
        "kv_transfer_limit",
        "burst_with_faster_start",
    }


def create_scheduler(slots: int) -> Scheduler:
    return Scheduler(
        SchedulerConfig(
            max_num_seqs=slots,
            max_num_batched_tokens=max(64, slots),
            max_model_len=64,
            num_blocks=256,
            block_size=16,
            is_prefix_caching=False,
        )
    )


def of_length(number: int, num_outputs: int) -> Sequence:
    """One prompt token, so that every step selects: decode only, as the golden case says."""
    return scripted(number, (number,), num_outputs)


# Batching


def run_batch(regime: Regime, lengths: Iterable[int], slots: int) -> StepLog:
    timeline = Timeline()
    log = StepLog(timeline)
    replica = BatchingReplica(
        timeline,
        create_scheduler(slots),
        ONE_A_STEP,
        Batching(regime=regime, max_sequences=slots),
        log,
    )
    for number, length in enumerate(lengths):
        replica.submit(of_length(number, length))
    timeline.run()
    return log


@pytest.mark.parametrize(
    ("regime", "called"), [(Regime.FIXED, "static"), (Regime.CONTINUOUS, "continuous")]
)
def test_a_free_slot_is_used_at_once_or_when_its_batch_is_over(regime: Regime, called: str) -> None:
    given, expected = BATCHING["given"], BATCHING["expect"]

    log = run_batch(regime, given["output_lengths"], given["slots"])

    assert len(log.steps) == expected[f"{called}_steps"]
    assert log.num_selected == sum(given["output_lengths"])
    assert round(log.slot_utilization(given["slots"]), 3) == expected[f"{called}_utilization"]


def test_the_regimes_are_those_of_the_literature() -> None:
    assert {regime.value for regime in Regime} == MECHANISMS["batching_regimes"].keys()


def test_a_configured_maximum_is_a_bound_and_not_a_supply() -> None:
    given = MECHANISMS["batch_disappears"]["given"]
    lengths = [3] * given["ready_sequences"]

    log = run_batch(Regime.CONTINUOUS, lengths, given["configured_sequences"])

    active = {len(step.chunks) for step in log.steps}
    assert active == {MECHANISMS["batch_disappears"]["expect"]["active"]}


# Bursts


def waits_at(arrivals_at_s: Iterable[float], service_s: int) -> list[float]:
    """How long each waits for one of two slots; a step takes a second."""
    timeline = Timeline()
    log = StepLog(timeline)
    replica = SimulatedReplica(timeline, create_scheduler(2), ONE_A_STEP, log)
    arrivals = dict(enumerate(arrivals_at_s))
    for number, at in arrivals.items():
        timeline.at(at, partial(replica.submit, of_length(number, service_s)))
    timeline.run()
    return [log.admitted_at[f"r{number}"] - at for number, at in arrivals.items()]


def test_one_average_rate_makes_no_wait_or_a_long_one() -> None:
    golden = MECHANISMS["bursts_at_one_average_rate"]
    given = golden["clustered"]["given"]
    clustered = [at for at, count in given["arrivals_at_s"].items() for _ in range(count)]
    assert len(clustered) == 8

    assert max(waits_at(range(8), given["service_s"])) == golden["even"]["max_wait_s"]
    assert waits_at(clustered, given["service_s"]) == golden["clustered"]["waits_s"]


# Prefix hits


def first_token_s(worker: str, extra_queue_tokens: int = 0) -> float:
    """Of a prompt whose beginning only the warm worker has; one tick is a prompt token's time."""
    given = MECHANISMS["prefix_hit_routing"]["given"]
    num_cached, num_new = given["cached_tokens"], given["new_tokens"]
    timeline = Timeline()
    log = StepLog(timeline)
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=8,
            max_num_batched_tokens=100_000,
            max_model_len=100_000,
            num_blocks=8_000,
            block_size=16,
        )
    )
    cost = LinearCost(iteration=0, per_prompt_token=1, per_decode_step=0)
    replica = SimulatedReplica(timeline, scheduler, cost, log)
    if worker == "warm":
        replica.submit(of_prompt(1, range(num_cached)))
        timeline.run()
    began_at = timeline.now
    if extra_queue_tokens:
        replica.submit(of_prompt(2, range(10**6, 10**6 + extra_queue_tokens)))
        timeline.run(until=began_at)  # its step has begun, and the next waits for its end
    replica.submit(of_prompt(3, range(num_cached + num_new)))
    timeline.run()
    rate: int = given["prefill_tokens_per_s"]
    return (log.selected_at["p3"][0] - began_at) / rate


def of_prompt(number: int, tokens: range) -> Sequence:
    return Sequence(
        request_id=f"p{number}",
        sequence_id=number,
        prompt_token_ids=tokens,
        max_output_tokens=1,
        script=(0,),
    )


def test_a_prefix_hit_saves_the_cached_tokens_over_the_rate_of_prefill() -> None:
    expected = MECHANISMS["prefix_hit_routing"]["expect"]

    assert first_token_s("warm") == expected["warm_prefill_s"]
    assert first_token_s("cold") == expected["cold_prefill_s"]
    assert first_token_s("cold") - first_token_s("warm") == expected["saved_s"]


@pytest.mark.parametrize("extra_queue_tokens", [19_000, 19_990, 20_010, 21_000])
def test_the_warm_worker_wins_while_its_extra_queue_is_under_two_seconds(
    extra_queue_tokens: int,
) -> None:
    golden = MECHANISMS["prefix_hit_routing"]
    given, rate = golden["given"], golden["given"]["prefill_tokens_per_s"]
    extra_s = extra_queue_tokens / rate
    warm = PrefillWait(
        queue_seconds=extra_s, num_uncached_tokens=given["new_tokens"], tokens_per_second=rate
    )
    cold = PrefillWait(
        queue_seconds=0,
        num_uncached_tokens=given["cached_tokens"] + given["new_tokens"],
        tokens_per_second=rate,
    )

    winner = least_wait({"warm": warm, "cold": cold})

    assert winner == ("warm" if extra_s < golden["expect"]["saved_s"] else "cold")
    assert first_token_s("warm", extra_queue_tokens) == pytest.approx(warm.seconds)
    assert first_token_s("cold") == pytest.approx(cold.seconds)


# KV transfer


def test_what_is_offered_above_a_link_piles_up_second_by_second() -> None:
    given, expected = MECHANISMS["kv_transfer"]["given"], MECHANISMS["kv_transfer"]["expect"]
    num_bytes, rate = given["gb_per_request"] * GIGA, given["requests_per_s"]
    timeline = Timeline()
    link = Link(timeline, given["link_gbit_per_s"] * GIGA)
    seconds = 20
    for number in range(seconds * rate):
        timeline.at(number / rate, partial(link.send, num_bytes, lambda: None))
    backlogs = []
    for second in range(1, seconds):
        timeline.run(until=second - 1e-6)  # before the first transfer of the next second
        backlogs.append(link.backlog_bits / GIGA)

    offered = offered_bits_per_second(num_bytes, rate) / GIGA
    growth = [later - earlier for earlier, later in pairwise(backlogs)]
    assert offered == expected["offered_gbit_per_s"]
    assert growth == pytest.approx([expected["over_by_gbit_per_s"]] * len(growth))
    surplus = link.surplus_bits_per_second(num_bytes, rate)
    assert surplus / GIGA == expected["over_by_gbit_per_s"]
    assert (surplus <= 0) is expected["sustainable"]


def note_lag(lags: list[float], timeline: Timeline, sent_at: float) -> None:
    lags.append(timeline.now - sent_at)


@pytest.mark.parametrize(("share", "is_kept_up_with"), [(0.99, True), (1.0, True), (1.1, False)])
def test_a_link_keeps_up_with_just_so_many_requests(share: float, is_kept_up_with: bool) -> None:
    given = MECHANISMS["kv_transfer"]["given"]
    num_bytes = given["gb_per_request"] * GIGA
    timeline = Timeline()
    link = Link(timeline, given["link_gbit_per_s"] * GIGA)
    limit = link.sustainable_per_second(num_bytes)
    assert limit == MECHANISMS["kv_transfer_limit"]["sustainable_requests_per_s"]

    rate = limit * share
    lags: list[float] = []
    for number in range(200):
        at = number / rate
        timeline.at(at, partial(link.send, num_bytes, partial(note_lag, lags, timeline, at)))
    timeline.run()

    one = num_bytes * BITS_PER_BYTE / link.bits_per_second
    assert len(lags) == 200
    assert (max(lags) == pytest.approx(one)) is is_kept_up_with


# Speculation


def speculative_round() -> SpeculativeRound:
    return SpeculativeRound(**MECHANISMS["speculation"]["given"])


def test_a_round_pays_when_it_commits_more_than_it_costs() -> None:
    expected = MECHANISMS["speculation"]["expect"]
    of_round = speculative_round()

    assert of_round.cost == pytest.approx(expected["round_cost"])
    assert of_round.break_even_committed == pytest.approx(expected["break_even_committed"])
    assert of_round.cost_per_token(of_round.break_even_committed) == pytest.approx(1)
    assert list(of_round.committed_range) == expected["committed_range"]
    for committed, cost in expected["cost_per_token"].items():
        assert round(of_round.cost_per_token(committed), 2) == cost


@pytest.mark.parametrize("committed", MECHANISMS["speculation"]["expect"]["cost_per_token"])
def test_a_replica_that_drafts_takes_what_its_rounds_cost(committed: float) -> None:
    of_round = speculative_round()
    timeline = Timeline()
    log = StepLog(timeline)
    cost = SpeculativeCost(ONE_A_STEP, of_round, acceptance_of(of_round, committed))
    replica = SimulatedReplica(timeline, create_scheduler(1), cost, log)

    replica.submit(of_length(1, 11))
    timeline.run()

    first, *others = log.selected_at["r1"]
    expected = MECHANISMS["speculation"]["expect"]["cost_per_token"][committed]
    assert round((others[-1] - first) / len(others), 2) == expected


def acceptance_of(of_round: SpeculativeRound, committed: float) -> float:
    """By halving: the more drafts are accepted, the more is committed."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        is_too_few = of_round.expected_committed(middle) < committed
        low, high = (middle, high) if is_too_few else (low, middle)
    return high


def outcomes() -> list[dict[str, Any]]:
    return [SPECULATIVE_ROUND, *SPECULATIVE_ROUND["other_outcomes"]]


@pytest.mark.parametrize("golden", outcomes(), ids=lambda g: "-".join(g["outcome"]))
def test_a_round_commits_up_to_the_first_rejection_and_one_more(golden: dict[str, Any]) -> None:
    accepted = [word == "accept" for word in golden["outcome"]]

    committed = SpeculativeRound(draft_steps=4, draft_cost=0.1).commit(accepted)

    assert committed.num_committed == len(golden["committed"])
    assert committed.num_kv_kept == len(golden["kv_kept"]) == committed.num_accepted


# Bursts and starts


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (MECHANISMS["burst_vs_readiness"]["given"], MECHANISMS["burst_vs_readiness"]["expect"]),
        (MECHANISMS["burst_with_faster_start"], MECHANISMS["burst_with_faster_start"]),
    ],
    ids=["slow", "fast"],
)
def test_a_start_helps_in_what_is_left_of_the_burst(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    after = given["ready_after_s"]
    start = ColdStart(acquire=after * 0.25, load=after * 0.5, compile=0, warm_up=after * 0.25)
    timeline = Timeline()
    ready_at: list[float] = []
    start.begin(
        timeline, lambda stage: ready_at.append(timeline.now) if stage is StartStage.READY else None
    )
    timeline.run()

    burst = given["burst_s"]
    assert ready_at == [after]
    assert burst - min(burst, ready_at[0]) == expected["ready_overlap_s"]
    assert ready_overlap(burst, start.ready_after) == expected["ready_overlap_s"]


# Phases


def test_doubling_both_phases_keeps_a_ratio_that_no_longer_matches_demand() -> None:
    given = MECHANISMS["phase_split"]["given"]
    split = PhaseSplit(prefill=given["prefill"], decode=given["decode"])
    assert split.num_units == given["units"]
    before = PhaseDemand(prefill=0.5, decode=1.5)  # the ratio of the split
    after = PhaseDemand(prefill=1.5, decode=0.5)  # prompts have become long, answers short

    doubled = split.scaled(2)

    assert [doubled.prefill, doubled.decode] == MECHANISMS["phase_split"]["expect"]["doubling_both"]
    assert split.short_phase(before) is None
    assert split.short_phase(after) is doubled.short_phase(after) is Phase.PREFILL
    right = best_split(given["units"], after)
    assert right == PhaseSplit(prefill=6, decode=2)
    assert right.sustainable_per_second(after) > doubled.sustainable_per_second(after)
