import dataclasses
import random
import statistics

import pytest

from dataplane.simulation.arrivals import Poisson, Regular
from dataplane.simulation.call import Call, Caller
from dataplane.simulation.clients import PATIENT
from dataplane.simulation.distributions import (
    Choice,
    Constant,
    Distribution,
    Empirical,
    Exponential,
    LogNormal,
    Uniform,
    draw_length,
)
from dataplane.simulation.joined_tokens import JoinedTokens, joined
from dataplane.simulation.token_space import TokenSpace
from dataplane.simulation.traffic import SharedPrefixes, SyntheticTraffic, TrafficSpec, Turns

ONE = Caller(tenant="one", client=PATIENT, headers={})
TWO = Caller(tenant="two", client=PATIENT, headers={})
SPEC = TrafficSpec(
    name="chat",
    process=Poisson(10),
    callers=[(ONE, 3), (TWO, 1)],
    prompt=LogNormal(median=300, sigma=0.5),
    output=LogNormal(median=100, sigma=0.5),
)


def calls(spec: TrafficSpec, count: int = 200, seed: int = 1) -> list[tuple[float, Call]]:
    source = SyntheticTraffic(spec, seed, TokenSpace())
    made = [source.next_call() for _ in range(count)]
    return [each for each in made if each is not None]


def lengths(spec: TrafficSpec) -> list[tuple[int, int]]:
    return [(len(call.prompt), len(call.answer)) for _, call in calls(spec)]


def test_lengths_have_their_median_and_callers_their_share() -> None:
    found = [call for _, call in calls(SPEC, 4000)]
    assert statistics.median(len(call.prompt) for call in found) == pytest.approx(300, rel=0.05)
    assert statistics.median(len(call.answer) for call in found) == pytest.approx(100, rel=0.05)
    share = sum(call.caller is TWO for call in found) / len(found)
    assert share == pytest.approx(0.25, abs=0.03)


def test_what_changes_in_one_respect_is_the_same_in_all_others() -> None:
    faster = dataclasses.replace(SPEC, process=Regular(1))
    limited = dataclasses.replace(SPEC, max_tokens=Uniform(1, 50))
    shared = dataclasses.replace(SPEC, prefixes=SharedPrefixes(num_prefixes=3, length=Constant(9)))
    assert lengths(faster) == lengths(limited) == lengths(shared) == lengths(SPEC)
    assert [at for at, _ in calls(limited)] == [at for at, _ in calls(SPEC)]
    assert lengths(dataclasses.replace(SPEC, name="other")) != lengths(SPEC)


def test_traffic_starts_stops_and_counts() -> None:
    spec = dataclasses.replace(SPEC, process=Regular(1), starts_at=5, ends_at=8)
    assert [at for at, _ in calls(spec)] == [5, 6, 7]
    assert len(calls(dataclasses.replace(SPEC, max_calls=3))) == 3


def test_prompts_share_exactly_their_prefix() -> None:
    prefixes = SharedPrefixes(num_prefixes=1, length=Constant(40))
    spec = dataclasses.replace(SPEC, prefixes=prefixes, prompt=Constant(60))
    (_, first), (_, second) = calls(spec, 2)
    assert first.prompt[:40] == second.prompt[:40]
    assert not set(first.prompt[40:]) & set(second.prompt[40:])
    assert len(first.prompt) == 60
    assert not set(first.prompt) & set(first.answer)


def test_a_skewed_prefix_is_likelier() -> None:
    prefixes = SharedPrefixes(num_prefixes=4, length=Constant(4), skew=2.0)
    spec = dataclasses.replace(SPEC, prefixes=prefixes, prompt=Constant(6))
    first = [call.prompt[0] for _, call in calls(spec, 2000)]
    most_common = max(set(first), key=first.count)
    assert first.count(most_common) / len(first) == pytest.approx(
        1 / (1 + 1 / 4 + 1 / 9 + 1 / 16), abs=0.04
    )


def test_a_turn_begins_with_all_that_was_said() -> None:
    turns = Turns(num_turns=Constant(3), wait=Constant(2.5), added=Constant(7))
    spec = dataclasses.replace(SPEC, turns=turns, max_tokens=Constant(20))
    [(_, first)] = calls(spec, 1)
    assert first.conversation is not None
    [(wait, second)] = first.conversation.next_turns()
    said = (*first.prompt, *first.answer[:20])
    assert wait == 2.5
    assert tuple(second.prompt[: len(said)]) == said
    assert len(second.prompt) == len(said) + 7
    assert second.conversation is not None
    [(_, third)] = second.conversation.next_turns()
    assert third.conversation is not None
    assert not third.conversation.next_turns()


def test_later_turns_count_towards_the_most_calls() -> None:
    turns = Turns(num_turns=Constant(3), wait=Constant(1), added=Constant(7))
    source = SyntheticTraffic(dataclasses.replace(SPEC, turns=turns, max_calls=4), 1, TokenSpace())
    made = source.next_call()
    assert made is not None
    first = made[1]
    assert first.conversation is not None
    assert len(first.conversation.next_turns()) == 1
    assert source.next_call() is not None
    assert len(first.conversation.next_turns()) == 1
    assert source.next_call() is None, "there were four"
    assert not first.conversation.next_turns()


def test_a_conversation_like_another_has_as_many_turns_and_counts_apart() -> None:
    turns = Turns(num_turns=Constant(3), wait=Constant(1), added=Uniform(1, 90))
    spec = dataclasses.replace(SPEC, turns=turns, max_calls=3)

    def added(like: int) -> list[int]:
        source = SyntheticTraffic(spec, 1, TokenSpace())
        made = source.next_call()
        assert made is not None
        conversation = made[1].conversation
        assert conversation is not None
        for number in range(like):
            call = Call(ONE, range(9), range(4), None)
            other = conversation.like(call, f"{number}")
            [(_, second)] = other.next_turns()
            assert second.prompt[:13] == (*range(9), *range(4))
            assert other.next_turns()
            assert not other.next_turns()
        told = [following for _ in range(3) for following in conversation.next_turns()]
        return [len(call.prompt) for _, call in told]

    assert len(added(0)) == 2
    assert added(2) == added(0), "it draws what it drew"


def test_where_nobody_compares_prompts_only_lengths_are_kept() -> None:
    source = SyntheticTraffic(SPEC, 1, TokenSpace(is_told_apart=False))
    made = source.next_call()
    assert made is not None
    assert made[1].prompt == range(len(made[1].prompt))
    assert len(made[1].prompt) == lengths(SPEC)[0][0]


def test_joined_ranges_read_like_their_tokens() -> None:
    parts = (range(-20, -12), range(5), range(40, 43))
    plain = [token for part in parts for token in part]
    tokens = joined(parts)
    assert isinstance(tokens, JoinedTokens)
    assert list(tokens) == plain
    for start in range(-2, 18):
        for stop in range(-2, 18):
            assert list(tokens[start:stop]) == plain[start:stop]
    assert joined(parts, 10)[-1] == 1
    assert joined(parts, 8) == range(-20, -12)
    with pytest.raises(IndexError, match="16 tokens, none at 16"):
        tokens[16]


@pytest.mark.parametrize(
    ("distribution", "mean"),
    [
        (Constant(4), 4),
        (Uniform(2, 6), 4),
        (Exponential(4), 4),
        (Empirical([1, 1, 10]), 4),
        (LogNormal(median=4, sigma=0.1), 4 * 1.005),
    ],
)
def test_a_distribution_has_its_mean(distribution: Distribution, mean: float) -> None:
    stream = random.Random(3)
    drawn = [distribution.draw(stream) for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(mean, rel=0.03)


def test_lengths_are_whole_and_bounded() -> None:
    stream = random.Random(3)
    assert draw_length(Constant(0.2), stream) == 1
    lengths = [draw_length(LogNormal(median=50, sigma=2, most=60), stream) for _ in range(500)]
    assert max(lengths) == 60
    assert min(lengths) >= 1


def test_a_choice_without_weight_says_so() -> None:
    with pytest.raises(ValueError, match="weight above 0"):
        Choice([("a", 0.0)])
    with pytest.raises(ValueError, match="at least one value"):
        Empirical([])
