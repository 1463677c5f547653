"""The golden tables, the cases at the edges, and any case against its rules written out."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.simulation.chunked_prefill import (
    Arrival,
    DecimalCost,
    PrefillCase,
    PrefillRun,
    run_case,
)
from tests.dataplane.simulation.golden_cases import load_golden

CHUNKED = load_golden("scheduling.yaml")["chunked_prefill"]
COST = DecimalCost(
    iteration=Decimal("1.0"),
    per_prompt_token=Decimal("0.5"),
    per_decode_step=Decimal("1.0"),
    per_reread_token=Decimal("0.1"),
)
FREE = DecimalCost(iteration=Decimal(0), per_prompt_token=Decimal(0), per_decode_step=Decimal(0))


def arrival(name: str, at: str, prompt: int, decodes: int = 0) -> Arrival:
    return Arrival(
        request_id=name, at_ms=Decimal(at), num_prompt_tokens=prompt, num_decodes=decodes
    )


def case(
    *arrivals: Arrival,
    decoding: Mapping[str, int] | None = None,
    slots: int = 8,
    tokens: int = 100,
    cost: DecimalCost = COST,
) -> PrefillCase:
    return PrefillCase(
        cost=cost,
        num_slots=slots,
        max_batch_tokens=tokens,
        decoding=decoding or {},
        arrivals=arrivals,
    )


def golden_case() -> PrefillCase:
    costs, bounds = CHUNKED["cost_model_ms"], CHUNKED["given"]
    return PrefillCase(
        cost=DecimalCost(
            iteration=Decimal(repr(costs["iteration"])),
            per_prompt_token=Decimal(repr(costs["per_prompt_token"])),
            per_decode_step=Decimal(repr(costs["per_decode_step"])),
            per_reread_token=Decimal(repr(costs["per_earlier_prompt_position_reread"])),
        ),
        num_slots=bounds["slots"],
        max_batch_tokens=bounds["total_batch_tokens"],
        decoding=bounds["decoding_at_zero"],
        arrivals=[
            arrival(a["request"], str(a["at_ms"]), a["prompt"], a["decode_after_first"])
            for a in bounds["arrivals"]
        ],
    )


def seen(run: PrefillRun) -> dict[str, Any]:
    """As the golden case calls it; numbers to the last digit."""
    number = run.scale.number
    return {
        "prompt_budget": run.prompt_budget,
        "first_selection_after_arrival_ms": {
            name: number(ticks) for name, ticks in run.first_selection_after_arrival.items()
        },
        "largest_gap_ms": {"A_or_B": number(run.largest_gap or 0)},
        "finish_ms": number(run.finish),
        "iterations": run.num_iterations,
        "overhead_ms": number(run.overhead),
        "prompt_tokens": run.num_prompt_tokens,
        "decode_steps": run.num_decode_steps,
        "earlier_positions_reread": run.num_reread_tokens,
        "table": list(run.table),
    }


@pytest.mark.parametrize("expected", CHUNKED["expect"], ids=lambda e: f"budget{e['prompt_budget']}")
def test_every_digit_of_the_golden_tables_comes_out(expected: dict[str, Any]) -> None:
    found = seen(run_case(golden_case(), expected["prompt_budget"]))

    assert {key: found[key] for key in expected} == expected


def test_an_idle_replica_waits_for_the_next_arrival_and_that_costs_nothing() -> None:
    run = run_case(case(arrival("late", "10.25", 4), decoding={"A": 1}), 8)

    assert run.table == ("0-2 A:D1", "10.25-13.25 late:P4")
    assert run.scale.text(run.overhead) == "2"
    assert run.scale.text(run.finish) == "13.25"


def test_an_arrival_at_the_end_of_an_iteration_is_in_the_next() -> None:
    run = run_case(case(arrival("C", "2", 1), decoding={"A": 2}), 8)

    assert run.table == ("0-2 A:D1", "2-4.5 A:D1 C:P1")


def test_an_arrival_within_an_iteration_waits_for_its_end() -> None:
    run = run_case(case(arrival("C", "1.999", 1), arrival("D", "2.001", 1), decoding={"A": 2}), 8)

    assert run.table == ("0-2 A:D1", "2-4.5 A:D1 C:P1", "4.5-6 D:P1")
    assert run.scale.number(run.first_selection_after_arrival["C"]) == 2.501


def test_arrivals_at_zero_are_in_the_first_iteration() -> None:
    assert run_case(case(arrival("C", "0", 2), decoding={"A": 1}), 8).table == ("0-3 A:D1 C:P2",)


def test_arrivals_of_one_moment_come_in_the_order_in_which_they_are_written() -> None:
    run = run_case(case(arrival("z", "1", 3), arrival("a", "1", 3), arrival("m", "0", 1)), 4)

    assert run.table == ("0-1.5 m:P1", "1.5-4.5 z:P3 a:P1", "4.5-6.6 a:P2")


def test_a_request_that_ends_with_its_prefill_decodes_nothing() -> None:
    run = run_case(case(arrival("C", "0", 1)), 1)

    assert (run.num_decode_steps, run.num_prompt_tokens, run.table) == (0, 1, ("0-1.5 C:P1",))
    assert run.largest_gap is None


def test_more_requests_than_slots_wait_for_one_and_the_wait_counts_from_arrival() -> None:
    run = run_case(case(arrival("C", "0", 2, 2), arrival("D", "1", 2, 0), slots=1), 8)

    assert run.table == ("0-2 C:P2", "2-4 C:D1", "4-6 C:D1", "6-8 D:P2")
    assert run.scale.number(run.first_selection_after_arrival["D"]) == 7


def test_the_tokens_of_an_iteration_bind_before_a_larger_prompt_budget() -> None:
    run = run_case(case(arrival("C", "0", 4), decoding={"A": 3, "B": 1}, tokens=3), 100)

    assert run.table == ("0-3.5 A:D1 B:D1 C:P1", "3.5-6.6 A:D1 C:P2", "6.6-9.4 A:D1 C:P1")


def test_prompts_wait_while_decode_steps_take_every_token() -> None:
    run = run_case(case(arrival("C", "0", 1), decoding={"A": 2, "B": 1}, slots=9, tokens=2), 5)

    assert run.table == ("0-3 A:D1 B:D1", "3-5.5 A:D1 C:P1")


def test_more_slots_than_tokens_change_nothing() -> None:
    waiting = [arrival(name, "0", 3, 2) for name in "CDEF"]

    assert run_case(case(*waiting, slots=64, tokens=2), 5) == run_case(
        case(*waiting, slots=2, tokens=2), 5
    )


def test_the_first_gap_counts_from_time_zero() -> None:
    run = run_case(case(arrival("C", "0", 100), decoding={"A": 1}), 99)

    assert run.scale.number(run.largest_gap or 0) == 51.5


def test_one_that_needs_no_step_at_zero_takes_no_slot() -> None:
    run = run_case(case(arrival("C", "0", 1), decoding={"A": 0}, slots=1), 1)

    assert run.table == ("0-1.5 C:P1",)
    assert run.largest_gap is None


def test_work_that_costs_nothing_takes_no_time() -> None:
    run = run_case(case(arrival("C", "3", 4, 1), decoding={"A": 2}, cost=FREE), 2)

    assert run.table == ("0-0 A:D1", "0-0 A:D1", "3-3 C:P2", "3-3 C:P2", "3-3 C:D1")
    assert run.finish == 3


def test_without_requests_nothing_happens() -> None:
    run = run_case(case(), 1)

    assert (run.finish, run.num_iterations, run.table) == (0, 0, ())


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="2 requests decode at zero"):
        case(decoding={"A": 1, "B": 1}, slots=1)
    with pytest.raises(ValueError, match="2 requests decode at zero"):
        case(decoding={"A": 1, "B": 1}, tokens=1)
    with pytest.raises(ValueError, match="same name"):
        case(arrival("A", "0", 1), decoding={"A": 1})


# Any case, against the rules of the golden file written out with fractions: no scheduler, no
# timeline, no blocks.


def by_the_rules(case: PrefillCase, budget: int) -> list[str]:
    """The work of every iteration, with its exact times."""
    now, rows = Fraction(0), []
    decodes = {name: steps for name, steps in case.decoding.items() if steps}
    prompts: dict[str, int] = {}  # tokens done, of those that have a slot
    later = sorted(case.arrivals, key=lambda a: a.at_ms)
    lengths = {a.request_id: a for a in case.arrivals}
    while decodes or prompts or later:
        if not decodes and not prompts:
            now = max(now, Fraction(later[0].at_ms))
        while later and later[0].at_ms <= now and len(decodes) + len(prompts) < case.num_slots:
            prompts[later.pop(0).request_id] = 0
        work, reread = [f"{name}:D1" for name in decodes], 0
        left = min(budget, case.max_batch_tokens - len(decodes))
        selecting = list(decodes)
        num_prompt_tokens = 0
        for name, done in prompts.items():
            take = min(left, lengths[name].num_prompt_tokens - done)
            if take:
                work.append(f"{name}:P{take}")
                left, num_prompt_tokens, reread = (
                    left - take,
                    num_prompt_tokens + take,
                    reread + done,
                )
                prompts[name] += take
        cost = case.cost
        end = now + Fraction(cost.iteration) + Fraction(cost.per_decode_step) * len(selecting)
        end += Fraction(cost.per_prompt_token) * num_prompt_tokens
        end += Fraction(cost.per_reread_token) * reread
        rows.append(f"{now} {end} {' '.join(work)}")
        now = end
        for name in selecting:
            decodes[name] -= 1
        for name in [n for n, done in prompts.items() if done == lengths[n].num_prompt_tokens]:
            del prompts[name]
            decodes[name] = lengths[name].num_decodes
        decodes = {name: steps for name, steps in decodes.items() if steps}
    return rows


COSTS = st.decimals(min_value=0, max_value=9, places=2)


@st.composite
def cases(draw: st.DrawFn) -> PrefillCase:
    tokens = draw(st.integers(1, 12))
    slots = draw(st.integers(1, 6))
    num_decoding = draw(st.integers(0, min(slots, tokens)))
    return PrefillCase(
        cost=DecimalCost(
            iteration=draw(COSTS),
            per_prompt_token=draw(COSTS),
            per_decode_step=draw(COSTS),
            per_reread_token=draw(COSTS),
        ),
        num_slots=slots,
        max_batch_tokens=tokens,
        decoding={f"d{i}": draw(st.integers(0, 6)) for i in range(num_decoding)},
        arrivals=[
            Arrival(
                request_id=f"r{i}",
                at_ms=draw(st.decimals(min_value=0, max_value=60, places=1)),
                num_prompt_tokens=draw(st.integers(1, 20)),
                num_decodes=draw(st.integers(0, 5)),
            )
            for i in range(draw(st.integers(0, 7)))
        ],
    )


@given(cases(), st.integers(1, 30))
def test_any_case_goes_by_the_rules(case: PrefillCase, budget: int) -> None:
    run = run_case(case, budget)

    exact = []
    for line in run.table:
        span, work = line.split(" ", 1)
        start, end = span.split("-")
        exact.append(f"{Fraction(start)} {Fraction(end)} {work}")
    assert exact == by_the_rules(case, budget)
    assert run.num_prompt_tokens == sum(a.num_prompt_tokens for a in case.arrivals)
    assert run.num_decode_steps == sum(case.decoding.values()) + sum(
        a.num_decodes for a in case.arrivals
    )
