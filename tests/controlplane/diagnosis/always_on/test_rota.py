"""Whose turn it is in a fleet that is too large to be asked whole each time."""

from collections import Counter
from collections.abc import Iterable

from controlplane.diagnosis.always_on.pace import Pace
from controlplane.diagnosis.always_on.rota import Rota
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.turns import Target

PASS_SECONDS = 5.0


class Passes:
    """One after the other over a fleet."""

    def __init__(self, num_deployments: int, num_replicas: int) -> None:
        self.targets = [
            Target(replica_id=f"d{d}-{r}", deployment=f"d{d}", address=f"10.0.{d}.{r}:1")
            for d in range(num_deployments)
            for r in range(num_replicas)
        ]
        self.rota = Rota()
        self.now = 0.0
        self.asked: dict[str, list[float]] = {}

    def do(self, num: int, suspects: Iterable[str] = (), most: int = 40) -> list[list[Target]]:
        chosen = []
        for _ in range(num):
            last = {name: times[-1] for name, times in self.asked.items()}
            found = self.rota.choose(self.targets, frozenset(suspects), last, self.now, most)
            for each in found:
                self.asked.setdefault(each.replica_id, []).append(self.now)
            self.now += PASS_SECONDS
            chosen.append(found)
        return chosen


def test_a_deployment_in_its_turn_is_asked_often_enough_to_see_a_course() -> None:
    passes = Passes(100, 10)
    passes.do(13)
    for replica_id in ("d0-0", "d0-1"):
        assert passes.asked[replica_id] == [0, 20, 40, 60]
    assert "d0-2" not in passes.asked


def test_nobody_is_judged_in_the_middle_of_a_turn_nor_twice_by_the_same() -> None:
    passes = Passes(100, 10)
    passes.do(1)
    assert not passes.rota.may_be_looked_at("d0", -1.0)
    passes.do(12)
    assert passes.rota.may_be_looked_at("d0", -1.0)
    assert not passes.rota.may_be_looked_at("d0", passes.now)


def test_every_deployment_has_a_turn_before_any_has_two_and_then_by_other_replicas() -> None:
    passes = Passes(100, 4)
    # Two replicas, four times each, in 40 places a pass.
    passes.do(round(100 * 2 * 4 / 40) + 12)
    turns = Counter(name.partition("-")[0] for name in passes.asked)
    assert set(turns) == {f"d{d}" for d in range(100)}
    passes.do(40)
    assert {f"d0-{r}" for r in range(4)} <= passes.asked.keys()


def test_no_pass_asks_more_than_it_may() -> None:
    passes = Passes(60, 7)
    assert max(map(len, passes.do(60, suspects=("d3", "d4"), most=25))) <= 25


def test_suspects_are_asked_whole_in_every_pass_while_they_fit() -> None:
    passes = Passes(50, 10)
    for chosen in passes.do(20, suspects=("d7", "d8")):
        own = Counter(each.deployment for each in chosen)
        assert (own["d7"], own["d8"]) == (10, 10)
        assert sum(own.values()) > 20
    assert passes.rota.may_be_looked_at("d7", 0.0)


def test_where_nearly_all_are_suspect_they_take_turns_too_and_leave_places_to_the_others() -> None:
    passes = Passes(50, 10)
    suspects = [f"d{d}" for d in range(40)]
    chosen = passes.do(1, suspects)[0]
    assert sum(each.deployment in suspects for each in chosen) == 30
    assert len(chosen) == 40
    everybody = Passes(50, 10)
    assert len(everybody.do(1, [f"d{d}" for d in range(50)])[0]) == 40


def test_what_passes_take_of_a_core_settles_at_its_share() -> None:
    settings = AlwaysOnSettings(max_scrapes=100, pass_seconds=5.0, cpu_share=0.1)
    pace = Pace(settings)
    assert pace.num_scrapes == 100
    for _ in range(60):
        pace.take(pace.num_scrapes * 0.02)
    assert pace.num_scrapes == 25
    for _ in range(60):
        pace.take(pace.num_scrapes * 0.001)
    assert pace.num_scrapes == 100
