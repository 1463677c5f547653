from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest

from dataplane.simulation.arrivals import Poisson
from dataplane.simulation.call import Call, Caller
from dataplane.simulation.clients import PATIENT
from dataplane.simulation.distributions import Constant, Uniform
from dataplane.simulation.faults.calls import CallFault, FaultyCalls
from dataplane.simulation.faults.clients import RetryStorm, SlowClients
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.faults.traffic import (
    ClusteredArrivals,
    LongerOutputs,
    LongPrompts,
    PrefixChange,
    TenantFlood,
)
from dataplane.simulation.token_space import TokenSpace
from dataplane.simulation.traffic import SharedPrefixes, SyntheticTraffic, TrafficSpec, Turns


# Long prompts are long lists here, where they are told token by token.
def few_long_prompts(**fields: Any) -> LongPrompts:
    return LongPrompts(added_tokens=200, **fields)


ALL: tuple[Callable[..., CallFault], ...] = (
    LongerOutputs,
    few_long_prompts,
    PrefixChange,
    ClusteredArrivals,
    TenantFlood,
    RetryStorm,
    SlowClients,
)
Told = tuple[float, str, tuple[int, ...], int, int | None, Caller]


def callers() -> list[tuple[Caller, float]]:
    return [
        (Caller(tenant=tenant, client=PATIENT, headers={}), weight)
        for tenant, weight in (("acme", 1.0), ("blot", 2.0))
    ]


def calls(*faults: CallFault, with_turns: bool = False, num_calls: int = 300) -> list[Told]:
    """The calls of a minute, and two turns behind each, told as plain values."""
    now = [0.0]
    tokens = TokenSpace()
    spec = TrafficSpec(
        name="chat",
        process=Poisson(8.0),
        callers=callers(),
        prompt=Uniform(20, 200),
        output=Uniform(5, 80),
        max_tokens=Constant(64),
        prefixes=SharedPrefixes(num_prefixes=2, length=Constant(64)),
        turns=Turns(num_turns=Constant(3), wait=Constant(2.0), added=Constant(20))
        if with_turns
        else None,
        max_calls=num_calls * (3 if with_turns else 1),
    )
    source = FaultPlan(faults).calls(SyntheticTraffic(spec, 5, tokens), lambda: now[0])
    told: list[Told] = []
    while (found := source.next_call()) is not None:
        now[0] = found[0]
        told += _told(*found)
    return told


def _told(at: float, call: Call) -> Iterable[Told]:
    yield at, call.caller.tenant, tuple(call.prompt), len(call.answer), call.max_tokens, call.caller
    if call.conversation is not None:
        for wait, following in call.conversation.next_turns():
            yield from _told(at + wait, following)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("with_turns", [False, True])
def test_intensity_0_leaves_every_call_as_it_is(
    kind: Callable[..., CallFault], with_turns: bool
) -> None:
    spec = TrafficSpec(
        name="chat", process=Poisson(8.0), callers=callers(), prompt=Uniform(20, 200),
        output=Uniform(5, 80), max_calls=50,
    )  # fmt: skip
    faulty = FaultyCalls(
        SyntheticTraffic(spec, 5, TokenSpace()), [kind(intensity=0)], clock=lambda: 0.0
    )
    plain = SyntheticTraffic(spec, 5, TokenSpace())
    while (expected := plain.next_call()) is not None:
        got = faulty.next_call()
        assert got is not None
        assert list(_told(*got)) == list(_told(*expected))
    assert faulty.next_call() is None


@pytest.mark.parametrize("kind", ALL)
def test_only_calls_within_its_time_are_changed(kind: Callable[..., CallFault]) -> None:
    well, faulty = calls(), calls(kind(at=20, duration=10, intensity=1))
    assert [t for t in faulty if t[0] < 20] == [t for t in well if t[0] < 20]
    assert [t for t in faulty if t[0] >= 30.1] == [t for t in well if t[0] >= 30.1]
    assert [t for t in faulty if 20 <= t[0] < 30.1] != [t for t in well if 20 <= t[0] < 30.1]


@pytest.mark.parametrize("kind", ALL)
def test_calls_come_in_order_and_the_same_seed_gives_the_same_calls(
    kind: Callable[..., CallFault],
) -> None:
    fault = kind(at=10, duration=20, intensity=0.7, seed=4)
    told = calls(fault)
    times = [each[0] for each in told]
    assert times == sorted(times)
    assert calls(fault) == told


@pytest.mark.parametrize("kind", ALL)
def test_a_fault_of_one_tenant_spares_the_others(kind: Callable[..., CallFault]) -> None:
    faulty = calls(kind(tenants=("acme",), intensity=1))
    assert [t for t in faulty if t[1] == "blot"] == [t for t in calls() if t[1] == "blot"]
    assert [t for t in faulty if t[1] == "acme"] != [t for t in calls() if t[1] == "acme"]


def test_longer_outputs_grow_with_intensity_and_lift_the_limit_alike() -> None:
    well = calls()
    for intensity in (0.5, 2.0):
        told = calls(LongerOutputs(intensity=intensity))
        assert [t[3] for t in told] == [round(t[3] * (1 + intensity)) for t in well]
        assert {t[4] for t in told} == {round(64 * (1 + intensity))}
        assert [(t[0], t[2]) for t in told] == [(t[0], t[2]) for t in well]


def test_calls_that_come_late_for_ever_are_not_drawn_beyond_the_end() -> None:
    spec = TrafficSpec(
        name="chat", process=Poisson(8.0), callers=callers(), prompt=Constant(9), output=Constant(9)
    )
    drawn: list[float] = []

    class Counted(SyntheticTraffic):
        def next_call(self) -> tuple[float, Call] | None:
            found = super().next_call()
            assert found is not None
            drawn.append(found[0])
            return found

    plan = FaultPlan([ClusteredArrivals(period=1e6)])
    source = plan.calls(Counted(spec, 5, TokenSpace()), lambda: 0.0, until=20.0)
    found = source.next_call()
    assert found is not None
    assert found[0] == 1e6
    assert drawn[-2] < 20.0 <= drawn[-1]


def test_each_of_several_answers_gets_longer() -> None:
    spec = TrafficSpec(
        name="chat",
        process=Poisson(8.0),
        callers=callers(),
        prompt=Constant(20),
        output=Uniform(5, 80),
        num_sequences=Constant(3),
        max_calls=20,
    )
    well = SyntheticTraffic(spec, 5, TokenSpace())
    faulty = FaultPlan([LongerOutputs(intensity=2)]).calls(
        SyntheticTraffic(spec, 5, TokenSpace()), lambda: 0.0
    )
    while (planned := well.next_call()) is not None:
        found = faulty.next_call()
        assert found is not None
        lengths = [len(answer) for answer in planned[1].further_answers]
        assert len(lengths) == 2
        assert [len(answer) for answer in found[1].further_answers] == [3 * n for n in lengths]
        assert len(found[1].answer) == 3 * len(planned[1].answer)


def test_long_prompts_keep_what_they_share_and_grow_behind_it() -> None:
    well = calls()
    told = calls(LongPrompts(intensity=0.5, added_tokens=100, share=0.25))
    grown = [(a, b) for a, b in zip(well, told, strict=True) if a[2] != b[2]]
    assert 0.15 < len(grown) / len(well) < 0.35
    for before, after in grown:
        assert after[2][: len(before[2])] == before[2]
        assert len(after[2]) == len(before[2]) + 50


def test_a_turn_behind_a_long_prompt_is_longer_by_as_much_and_no_more() -> None:
    well = calls(with_turns=True, num_calls=20)
    told = calls(LongPrompts(intensity=0.5, added_tokens=100), with_turns=True, num_calls=20)
    assert [len(t[2]) for t in told] == [len(t[2]) + 50 for t in well]
    over = calls(LongPrompts(duration=1.0, added_tokens=100), with_turns=True, num_calls=20)
    assert [t for t in over if t[0] >= 1] == [t for t in well if t[0] >= 1]


def test_a_turn_behind_a_longer_answer_holds_all_of_it() -> None:
    well = calls(with_turns=True, num_calls=20)
    told = calls(LongerOutputs(intensity=1), with_turns=True, num_calls=20)
    pairs, num_turns = list(zip(well, told, strict=True)), 0
    for (plain, changed), (plain_turn, turn) in pairwise(pairs):
        if plain_turn[2][: len(plain[2])] == plain[2]:  # the turn behind it
            num_turns += 1
            grown = min(changed[3], 128) - min(plain[3], 64)
            assert len(turn[2]) - len(changed[2]) == len(plain_turn[2]) - len(plain[2]) + grown
    assert num_turns == 40


def test_a_prefix_change_keeps_lengths_and_ends_what_prompts_have_in_common() -> None:
    def num_shared(told: list[Told]) -> int:
        return len(told) - len({t[2][:16] for t in told})

    well = calls()
    shared = [num_shared(calls(PrefixChange(intensity=i))) for i in (0.0, 0.3, 0.7, 1.0)]
    assert shared == sorted(shared, reverse=True)
    assert shared[0] == num_shared(well)
    assert shared[-1] == 0
    told = calls(PrefixChange())
    assert [len(t[2]) for t in told] == [len(t[2]) for t in well]


def test_a_prefix_change_also_separates_a_turn_from_the_one_before() -> None:
    told = calls(PrefixChange(), with_turns=True, num_calls=20)
    assert len({t[2][0] for t in told}) == len(told) == 60


def test_clustered_arrivals_keep_their_number_and_come_closer_together() -> None:
    def spread(told: list[Told]) -> float:
        return sum((10 - t[0] % 10) % 10 for t in told)

    runs = [calls(ClusteredArrivals(intensity=i, period=10)) for i in (0.0, 0.5, 1.0)]
    assert {len(run) for run in runs} == {300}
    spreads = [spread(run) for run in runs]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] == 0
    assert {t[0] % 10 for t in runs[-1]} == {0.0}


def test_a_flooding_tenant_calls_so_many_times_as_often() -> None:
    well = sum(t[1] == "acme" for t in calls())
    for intensity, factor in ((1.0, 2), (9.0, 10), (0.5, 1.5)):
        told = calls(TenantFlood(tenants=("acme",), intensity=intensity))
        assert sum(t[1] == "acme" for t in told) == pytest.approx(well * factor, rel=0.1)
        assert sum(t[1] == "blot" for t in told) == 300 - well


def test_a_flood_shares_what_its_tenant_shares_and_no_more() -> None:
    def shares(told: list[Told], num_tokens: int) -> float:
        prompts = [t[2] for t in told if len(t[2]) >= 128]
        return 1 - len({prompt[:num_tokens] for prompt in prompts}) / len(prompts)

    well, told = calls(), calls(TenantFlood(tenants=("acme",), intensity=4, at=5))
    assert len(told) > 2 * len(well)
    assert shares(told, 64) == pytest.approx(shares(well, 64), abs=0.02)
    assert shares(told, 65) == 0
    assert sum(len(t[2]) for t in told) / len(told) == pytest.approx(
        sum(len(t[2]) for t in well) / len(well), rel=0.05
    )


def test_the_answers_of_a_flood_are_not_those_of_the_calls_that_it_is_like() -> None:
    spec = TrafficSpec(
        name="chat",
        process=Poisson(8.0),
        callers=callers(),
        prompt=Constant(20),
        output=Constant(10),
        num_sequences=Constant(3),
        max_calls=20,
    )
    flood = FaultPlan([TenantFlood(intensity=2)])
    source = flood.calls(SyntheticTraffic(spec, 5, TokenSpace()), lambda: 0.0)
    answers: list[range] = []
    while (found := source.next_call()) is not None:
        answers += (found[1].answer, *found[1].further_answers)
    assert len(answers) == 3 * 20 * 3
    assert len({token for answer in answers for token in answer}) == 10 * len(answers)


def conversations(*faults: CallFault) -> dict[str, list[list[Told]]]:
    """Those of each tenant: of every call that begins something, it and its turns."""
    found: dict[str, list[list[Told]]] = {"acme": [], "blot": []}
    for told in calls(*faults, with_turns=True, num_calls=40):
        of_tenant = found[told[1]]
        if of_tenant and len(of_tenant[-1]) < 3:
            of_tenant[-1].append(told)
        else:
            of_tenant.append([told])
    return found


def test_the_calls_of_a_flood_have_as_many_turns_each_built_on_what_was_said_before_it() -> None:
    well, told = conversations(), conversations(TenantFlood(tenants=("acme",), intensity=2))
    lengths = [[(at, len(p), n) for at, _, p, n, *_ in talk] for talk in told["blot"]]
    assert lengths == [[(at, len(p), n) for at, _, p, n, *_ in talk] for talk in well["blot"]]
    assert len(told["acme"]) == 3 * len(well["acme"])
    for first, second, third in told["acme"]:
        for before, turn in ((first, second), (second, third)):
            assert turn[2][: len(before[2])] == before[2]
            assert len(turn[2]) == len(before[2]) + min(before[3], 64) + 20
    own = {third[2][64] for *_, third in told["acme"]}
    assert len(own) == len(told["acme"]), "none has what another said"


def test_turns_of_a_flood_are_changed_as_all_turns_are_and_no_turn_is_multiplied() -> None:
    flood = TenantFlood(tenants=("acme",), intensity=1)
    told = conversations(flood, LongPrompts(added_tokens=100))
    plain = conversations(flood)
    assert [[len(t[2]) - 100 for t in talk] for talk in told["acme"]] == [
        [len(t[2]) for t in talk] for talk in plain["acme"]
    ]


def test_a_retry_storm_and_slow_clients_change_the_share_of_clients_that_they_say() -> None:
    for kind in (RetryStorm, SlowClients):
        shares = []
        for intensity in (0.0, 0.3, 0.7, 1.0):
            told = calls(kind(intensity=intensity))
            shares.append(sum(t[5].client is not PATIENT for t in told) / len(told))
        assert shares == sorted(shares)
        assert shares[0] == 0
        assert shares[-1] == 1


def test_several_faults_act_together_and_in_any_number() -> None:
    told = calls(LongerOutputs(intensity=1), TenantFlood(tenants=("acme",), intensity=1))
    assert all(t[4] == 128 for t in told)
    assert len(told) > 300


def test_a_fault_that_is_added_changes_nothing_of_what_another_drew() -> None:
    hit = [t[2] for t in calls(PrefixChange(intensity=0.5, seed=1))]
    both = [t[2] for t in calls(PrefixChange(intensity=0.5, seed=1), SlowClients(seed=2))]
    assert both == hit
