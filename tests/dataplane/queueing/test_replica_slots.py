from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.queueing.replica_slots import ReplicaSlots

REPLICAS = ("r0", "r1", "r2", "r3")
STEP = st.one_of(
    st.tuples(st.just("take"), st.sampled_from(REPLICAS), st.integers(1, 3)),
    st.tuples(st.just("give"), st.sampled_from(REPLICAS), st.integers(1, 3)),
    st.tuples(
        st.just("replicas"),
        st.dictionaries(st.sampled_from(REPLICAS), st.sampled_from((None, 0, 1, 2, 4))),
        st.dictionaries(st.sampled_from(REPLICAS), st.integers(1, 3)),
    ),
    st.tuples(st.just("lower"), st.sampled_from(REPLICAS), st.sampled_from((None, 1, 3))),
)


@given(st.lists(STEP, max_size=50))
@settings(deadline=None)
def test_who_has_a_free_slot_is_shown_whatever_is_taken_given_back_and_connected(
    steps: list[tuple[object, ...]],
) -> None:
    slots = ReplicaSlots()
    held: dict[str, int] = {}
    limits: dict[str, int | None] = {}
    elsewhere: dict[str, int] = {}
    lower: dict[str, int] = {}
    for step in steps:
        match step:
            case ("take", str(name), int(number)) if name in limits:
                slots.take(name, number)
                held[name] = held.get(name, 0) + number
            case ("give", str(name), int(number)) if held.get(name, 0) >= number:
                slots.give_back(name, number)
                held[name] -= number
            case ("replicas", dict() as limits, dict() as elsewhere):
                slots.set_replicas(limits, elsewhere)
                lower = {each: limit for each, limit in lower.items() if each in limits}
            case ("lower", str(name), (None | int()) as most):
                slots.set_lower_limit(name, most)
                if name in limits:
                    lower = {n: limit for n, limit in lower.items() if n != name}
                    lower |= {} if most is None else {name: most}
        slots.check_integrity()
        for name in REPLICAS:
            assert slots.num_outstanding(name) == held.get(name, 0)
            assert (slots.find(name) is not None) == (name in limits or held.get(name, 0) > 0)
        totals = {name: held.get(name, 0) + elsewhere.get(name, 0) for name in limits}
        most_of = {n: _least(limit, lower.get(n)) for n, limit in limits.items()}
        free = {n for n, limit in most_of.items() if limit is None or totals[n] < limit}
        assert {each.replica_id for each in slots.open} == free
        assert {e.replica_id for e in slots.with_room(1, frozenset({"r0"}))} == free - {"r0"}
        assert set(slots.replica_ids()) == set(limits)


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def test_what_is_known_of_a_replica_stays_while_something_of_it_is_held() -> None:
    slots = ReplicaSlots()
    slots.set_replicas({"a": 2}, {})
    candidate = slots.find("a")
    assert candidate is not None
    slots.take("a", 1)
    candidate.num_prompt_tokens_ahead = 500
    slots.set_replicas({}, {})
    slots.set_replicas({"a": 2}, {})
    assert slots.find("a") is candidate
    slots.set_replicas({}, {})
    slots.give_back("a", 1)
    assert slots.find("a") is None
