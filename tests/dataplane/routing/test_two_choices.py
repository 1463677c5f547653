from collections import Counter
from random import Random

from dataplane.routing.two_choices import TwoChoices
from tests.dataplane.routing.candidates import candidate, routed

REQUEST = routed()


def test_of_two_the_one_with_less_on_it_is_taken_whichever_was_drawn_first() -> None:
    busy, idle = candidate("a", 3), candidate("b", 2)
    policy = TwoChoices(Random(1))
    for candidates in ([busy, idle], [idle, busy]):
        for _ in range(20):
            assert policy.choose(REQUEST, candidates, False).chosen is idle


def test_what_others_sent_to_a_replica_counts_as_ours_does() -> None:
    busy, idle = candidate("a", 0, num_foreign=5), candidate("b", 4)
    assert TwoChoices(Random(1)).choose(REQUEST, [busy, idle], False).chosen is idle


def test_equal_counts_are_told_apart_by_the_prompts_that_are_ahead() -> None:
    long, short = candidate("a", 1, num_prompt_tokens_ahead=9000), candidate("b", 1)
    assert TwoChoices(Random(1)).choose(REQUEST, [long, short], False).chosen is short


def test_the_only_one_is_taken() -> None:
    only = candidate("a", 7)
    pick = TwoChoices(Random(1)).choose(REQUEST, [only], True)
    assert (pick.chosen, pick.reason) == (only, "it was the only one")


def test_the_same_seed_draws_the_same_and_everybody_is_drawn() -> None:
    candidates = [candidate(f"r{number}") for number in range(10)]

    def draw(seed: int) -> list[str]:
        policy = TwoChoices(Random(seed))
        return [policy.choose(REQUEST, candidates, False).chosen.replica_id for _ in range(300)]

    assert draw(5) == draw(5) != draw(6)
    loaded = [candidate(f"r{number}") for number in range(10)]
    policy = TwoChoices(Random(7))
    for _ in range(1000):
        policy.choose(REQUEST, loaded, False).chosen.num_outstanding += 1
    counts = [each.num_outstanding for each in loaded]
    assert max(counts) - min(counts) <= 6, "drawn alone, one in ten would be 20 apart"
    assert sum(Counter(draw(8)).values()) == 300


def test_a_reason_names_both_that_were_drawn() -> None:
    busy, idle = candidate("a", 3), candidate("b", 2)
    pick = TwoChoices(Random(1)).choose(REQUEST, [busy, idle], True)
    assert pick.reason == "of two drawn at random, 2 sequences before 3 of a"
    assert pick.scores == ((idle, 2), (busy, 3))
