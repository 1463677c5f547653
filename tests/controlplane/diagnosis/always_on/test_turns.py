"""Who is looked at next, where there are more than can be."""

from controlplane.diagnosis.always_on.turns import Target, choose_targets, order_deployments


def _fleet(num_deployments: int, num_replicas: int) -> list[Target]:
    return [
        Target(replica_id=f"d{d}-{r}", deployment=f"d{d}", address=f"10.0.{d}.{r}:1")
        for d in range(num_deployments)
        for r in range(num_replicas)
    ]


def _ids(targets: list[Target]) -> set[str]:
    return {each.replica_id for each in targets}


def test_a_small_fleet_is_asked_whole_every_time() -> None:
    fleet = _fleet(2, 3)
    assert _ids(choose_targets(fleet, frozenset(), {}, 6)) == _ids(fleet)


def test_of_a_large_one_everybody_has_a_turn_before_anybody_has_two() -> None:
    fleet = _fleet(50, 10)
    asked: dict[str, float] = {}
    for number in range(5):
        chosen = choose_targets(fleet, frozenset(), asked, 100)
        assert len(chosen) == 100
        assert not _ids(chosen) & asked.keys()
        asked |= dict.fromkeys(_ids(chosen), float(number))
    assert len(asked) == 500


def test_suspects_go_first_and_leave_some_places_to_the_others() -> None:
    fleet = _fleet(50, 10)
    many = frozenset(f"d{d}" for d in range(30))
    chosen = choose_targets(fleet, many, {}, 100)
    assert sum(each.deployment in many for each in chosen) == 75
    few = frozenset({"d7"})
    chosen = choose_targets(fleet, few, dict.fromkeys(_ids(fleet), 1.0), 100)
    assert sum(each.deployment in few for each in chosen) == 10
    assert len(chosen) == 100


def test_where_all_are_suspect_no_place_is_left_empty() -> None:
    fleet = _fleet(50, 10)
    everybody = frozenset(each.deployment for each in fleet)
    assert len(choose_targets(fleet, everybody, {}, 100)) == 100


def test_the_rules_look_at_suspects_first_and_then_at_who_waited_longest() -> None:
    looked = {"a": 10.0, "b": 5.0, "c": 20.0}
    assert order_deployments(["a", "b", "c", "d"], frozenset({"c"}), looked) == ["c", "d", "b", "a"]
