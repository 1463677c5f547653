from collections.abc import Sequence
from random import Random

import pytest

from dataplane.policy import RoutingTerms
from dataplane.routing.candidate import Candidate
from dataplane.routing.ejection import EjectionTerms
from dataplane.routing.least_outstanding import LeastOutstanding
from dataplane.routing.policy import Pick, RoutingPolicy
from dataplane.routing.prefix_affinity import PrefixAffinity
from dataplane.routing.prompt_blocks import hash_blocks
from dataplane.routing.reported_load import ReportedLoad
from dataplane.routing.request import RoutedRequest, RoutingRequest
from dataplane.routing.router import Router
from dataplane.routing.routing import Routing
from tests.dataplane.routing.candidates import candidate


class World:
    """A router, and a clock that stands still."""

    def __init__(self, policy: RoutingPolicy | None = None, names: str = "ab") -> None:
        self.now = 100.0
        self.num_changes = 0
        self.router = Router(
            lambda: self.now,
            Routing(
                terms=RoutingTerms(),
                policy=policy or LeastOutstanding(),
                ejection=EjectionTerms(),
            ),
            Random(3),
            explains=True,
            on_change=self._note_change,
        )
        self.candidates = [candidate(name) for name in names]
        self.router.set_replicas(set(names), set(names))

    def _note_change(self) -> None:
        self.num_changes += 1

    def fail(self, name: str, times: int) -> None:
        [chosen] = [each for each in self.candidates if each.replica_id == name]
        for _ in range(times):
            placement = self.router.choose(None, [chosen])
            placement.fail()
            placement.end()


def work(num_prompt_tokens: int = 100, **fields: object) -> RoutingRequest:
    return RoutingRequest(num_prompt_tokens=num_prompt_tokens, num_output_tokens=20, **fields)  # type: ignore[arg-type]


def prompt(num_tokens: int, first: int = 0) -> RoutingRequest:
    blocks = hash_blocks(range(first, first + num_tokens), "acme")
    return work(num_tokens, blocks=blocks)


def test_a_placement_counts_from_the_choice_until_its_end() -> None:
    world = World()
    a = world.candidates[0]
    placement = world.router.choose(work(), [a])
    assert (a.num_prompt_tokens_ahead, a.num_output_tokens_ahead) == (100, 20)
    placement.note_first_token()
    placement.note_first_token()
    assert (a.num_prompt_tokens_ahead, a.num_output_tokens_ahead) == (0, 20)
    placement.end()
    placement.end()
    assert (a.num_prompt_tokens_ahead, a.num_output_tokens_ahead) == (0, 0)


def test_what_ends_before_its_first_token_leaves_nothing_ahead() -> None:
    world = World()
    a = world.candidates[0]
    placement = world.router.choose(work(), [a])
    placement.note_cached(64)
    assert a.num_prompt_tokens_ahead == 36
    placement.end()
    placement.note_first_token()
    placement.note_cached(10)
    assert (a.num_prompt_tokens_ahead, a.num_output_tokens_ahead) == (0, 0)


def test_the_prefill_rate_is_measured_where_the_engine_shows_its_work() -> None:
    world = World()
    a = world.candidates[0]
    placement = world.router.choose(work(2000), [a])
    placement.note_scheduled()
    placement.note_cached(1000)
    world.now += 0.5
    placement.note_first_token()
    assert a.prefill_tokens_per_second == pytest.approx(2000.0)
    blind = world.router.choose(work(2000), [a])
    world.now += 9.0
    blind.note_first_token()
    assert a.prefill_tokens_per_second == pytest.approx(2000.0)


def test_a_second_request_of_a_prefix_goes_where_the_first_one_went() -> None:
    world = World(PrefixAffinity({}))
    first = world.router.choose(prompt(3200), world.candidates)
    first.note_first_token()
    again = world.router.choose(prompt(3200), world.candidates)
    assert again.replica_id == first.replica_id
    assert again.num_cached_tokens == 3199, "the last token is always computed"
    assert again.decision is not None
    assert again.decision.reason.startswith("has 3200 of 3200 prompt tokens")
    other = world.router.choose(prompt(3200, first=9999), world.candidates)
    assert other.replica_id != first.replica_id


def test_a_replica_that_was_lost_comes_back_with_nothing_cached() -> None:
    world = World(PrefixAffinity({}))
    first = world.router.choose(prompt(3200), world.candidates)
    world.router.set_replicas({"a", "b"}, {"a", "b"} - {first.replica_id})
    world.router.set_replicas({"a", "b"}, {"a", "b"})
    assert world.router.index.find(prompt(3200).blocks) == {}


def test_an_engine_that_tells_of_less_is_believed() -> None:
    world = World(PrefixAffinity({}))
    old = prompt(3200, first=50_000)
    world.router.choose(old, world.candidates[:1]).note_first_token()
    for _ in range(2):
        placement = world.router.choose(prompt(3200), world.candidates[:1])
        placement.note_first_token()
    for _ in range(2):  # it evicts more than was thought, twice
        placement.note_cached(0)
        placement = world.router.choose(prompt(3200), world.candidates[:1])
    assert world.router.index.find(old.blocks) == {}
    assert world.router.index.find(prompt(3200).blocks) == {"a": 3200}


def test_a_session_keeps_its_replica_and_the_decision_says_so() -> None:
    world = World(names="abcd")
    chosen = {
        world.router.choose(work(affinity_key="s-1"), world.candidates).replica_id
        for _ in range(10)
    }
    assert len(chosen) == 1
    decision = world.router.choose(work(affinity_key="s-1"), world.candidates).decision
    assert decision is not None
    assert decision.policy == "session_affinity"
    assert decision.reason == "the replica of its session"
    [home] = [each for each in world.candidates if each.replica_id in chosen]
    others = [each for each in world.candidates if each is not home]
    assert world.router.choose(work(affinity_key="s-1"), others).replica_id not in chosen


def test_an_ejection_is_told_once_and_one_that_comes_back_gets_its_share() -> None:
    world = World(names="abcd")
    world.fail("a", 5)
    assert world.num_changes == 1
    assert world.router.ejections.usable() == {"b", "c", "d"}
    decision = world.router.choose(work(), world.candidates[1:]).decision
    assert decision is not None
    [left_out] = [each for each in decision.candidates if each.why_not is not None]
    assert (left_out.replica_id, left_out.why_not) == ("a", "ejected: 5 failures in a row")

    world.now += 10.0
    world.router.check()
    assert world.num_changes == 2
    counts = {"a": 0, "b": 0, "c": 0, "d": 0}
    for _ in range(400):
        for each in world.candidates:
            each.num_outstanding = 0 if each.replica_id == "a" else 1
        counts[world.router.choose(work(), world.candidates).replica_id] += 1
    assert 20 <= counts["a"] <= 70, "a tenth, though it has the least to do"
    assert world.router.choose(work(), world.candidates[:1]).replica_id == "a"


def test_a_report_that_is_not_believed_is_named_beside_the_counts_that_stand() -> None:
    world = World()
    a, b = world.candidates
    a.num_outstanding, b.num_outstanding = 5, 6
    a.reported = ReportedLoad(num_sequences=0, told_at=98.5, why_not="it reports 0")
    b.reported = ReportedLoad(num_sequences=9, told_at=80.0)
    decision = world.router.choose(work(), world.candidates).decision
    assert decision is not None
    assert decision.chosen == "a"
    assert decision.degraded == ("a: it reports 0; the gateway's own counts stand",)
    reports = {
        each.replica_id: signal
        for each in decision.candidates
        for signal in each.signals
        if signal.name == "reported"
    }
    assert (reports["a"].age_seconds, reports["a"].is_used) == (1.5, False)
    assert (reports["b"].age_seconds, reports["b"].is_used) == (20.0, False), "too old"


class Broken:
    """A plugin's policy that fails in one way or another."""

    name = "broken"
    wants_prefixes = False

    def __init__(self, answer: Candidate | None) -> None:
        self.answer = answer

    def choose(
        self, request: RoutedRequest, candidates: Sequence[Candidate], wants_reason: bool
    ) -> Pick:
        if self.answer is None:
            raise KeyError("replica-9")
        return Pick(self.answer)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "policy broken failed: KeyError: 'replica-9'"),
        (candidate("gone"), "policy broken failed: ValueError: it chose none of the candidates"),
    ],
)
def test_a_policy_that_fails_costs_its_choice_and_no_request(
    answer: Candidate | None, message: str
) -> None:
    world = World(Broken(answer))
    world.candidates[0].num_outstanding = 3
    placement = world.router.choose(work(), world.candidates)
    assert placement.replica_id == "b"
    assert placement.decision is not None
    assert placement.decision.degraded == (message,)


def test_of_a_thousand_the_best_few_are_kept_with_the_chosen_one() -> None:
    world = World()
    many = [candidate(f"r{number:04}", number) for number in range(1000)]
    decision = world.router.choose(work(), many, frozenset({"x"})).decision
    assert decision is not None
    assert decision.num_candidates == 1000
    assert [each.replica_id for each in decision.candidates] == [f"r000{i}" for i in range(5)]
