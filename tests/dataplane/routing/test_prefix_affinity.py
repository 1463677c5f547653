import pytest

from dataplane.routing.prefix_affinity import PrefixAffinity
from tests.dataplane.routing.candidates import candidate, routed
from tests.dataplane.simulation.golden_cases import load_golden

GOLDEN = load_golden("mechanisms.yaml")["prefix_hit_routing"]
CACHED, NEW = GOLDEN["given"]["cached_tokens"], GOLDEN["given"]["new_tokens"]
RATE = GOLDEN["given"]["prefill_tokens_per_s"]
SAVED_SECONDS = GOLDEN["expect"]["saved_s"]


def choose(extra_queue_seconds: float, **settings: float) -> tuple[str, dict[str, float]]:
    warm = candidate("warm", 1, num_prompt_tokens_ahead=int(extra_queue_seconds * RATE))
    request = routed(CACHED + NEW, warm=CACHED)
    pick = PrefixAffinity(settings).choose(request, [candidate("cold"), warm], True)
    return pick.chosen.replica_id, {each.replica_id: score for each, score in pick.scores}


@pytest.mark.parametrize("settings", [{}, {"prefill_tokens_per_s": RATE}])
def test_the_warm_one_wins_while_its_extra_queue_time_is_less_than_it_saves(
    settings: dict[str, float],
) -> None:
    assert choose(0.0, **settings)[0] == "warm"
    assert choose(SAVED_SECONDS - 0.001, **settings)[0] == "warm"
    assert choose(SAVED_SECONDS + 0.001, **settings)[0] == "cold"


def test_scores_are_seconds_until_the_first_token_at_the_golden_rate() -> None:
    _, scores = choose(0.0, prefill_tokens_per_s=RATE)
    expected = GOLDEN["expect"]
    assert scores["warm"] == pytest.approx(expected["warm_prefill_s"])
    assert scores["cold"] == pytest.approx(expected["cold_prefill_s"])
    assert scores["cold"] - scores["warm"] == pytest.approx(SAVED_SECONDS)


def test_each_replica_is_held_to_the_rate_that_was_measured_of_it() -> None:
    slow = candidate("slow", prefill_tokens_per_second=1000.0)
    fast = candidate("fast", prefill_tokens_per_second=20_000.0)
    pick = PrefixAffinity({}).choose(routed(10_000, slow=9000), [slow, fast], True)
    assert pick.chosen is fast
    assert [round(score, 2) for _, score in pick.scores] == [1.0, 0.5]
    unknown = candidate("unknown")  # counts as the mean of those that are known
    pick = PrefixAffinity({}).choose(routed(10_500), [slow, fast, unknown], True)
    assert pick.scores[2][1] == pytest.approx(1.0)


def test_a_warm_one_that_piles_up_answers_loses_a_small_prefix() -> None:
    warm = candidate("warm", 60, num_output_tokens_ahead=6000)
    cold = candidate("cold", 2, num_output_tokens_ahead=200)
    policy = PrefixAffinity({})
    assert policy.choose(routed(300, warm=160), [warm, cold], False).chosen is cold
    assert policy.choose(routed(20_200, warm=20_000), [warm, cold], False).chosen is warm


def test_with_nothing_cached_anywhere_the_least_busy_wins() -> None:
    busy = candidate("a", 2, num_prompt_tokens_ahead=500)
    pick = PrefixAffinity({}).choose(routed(), [busy, candidate("c", 1), candidate("b", 1)], False)
    assert pick.chosen.replica_id == "b"


def test_the_reason_says_what_the_warmest_lacked() -> None:
    warm = candidate("warm", 1, num_prompt_tokens_ahead=30_000)
    pick = PrefixAffinity({"prefill_tokens_per_s": RATE}).choose(
        routed(20_200, warm=20_000), [warm, candidate("cold")], True
    )
    assert pick.reason == (
        "has 0 of 20200 prompt tokens and 2.02 s to the first token; warm has 20000 of them and "
        "3.02 s: waiting there costs more than computing them"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prefil_tokens_per_s": 1}, "no setting 'prefil_tokens_per_s'; did you mean prefill_"),
        ({"output_token_cost": "much"}, "output_token_cost must be a number above 0, not 'much'"),
        ({"prefill_tokens_per_s": 0}, "prefill_tokens_per_s must be a number above 0, not 0"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="routing policy prefix") as error:
        PrefixAffinity(settings)
    assert message in str(error.value)
