"""In which order the rules look."""

from controlplane.diagnosis.always_on.turns import order_deployments


def test_the_rules_look_at_suspects_first_and_then_at_who_waited_longest() -> None:
    looked = {"a": 10.0, "b": 5.0, "c": 20.0}
    assert order_deployments(["a", "b", "c", "d"], frozenset({"c"}), looked) == ["c", "d", "b", "a"]
