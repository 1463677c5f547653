from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dataplane.routing.session_affinity import SessionAffinity
from tests.dataplane.routing.candidates import candidate

KEYS = [f"session-{number}" for number in range(400)]


def homes(names: list[str]) -> dict[str, str]:
    affinity = SessionAffinity()
    candidates = [candidate(name) for name in names]
    chosen = {key: affinity.choose(key, candidates) for key in KEYS}
    return {key: each.replica_id for key, each in chosen.items()}


def test_a_session_finds_the_same_replica_in_any_order_and_in_every_gateway() -> None:
    names = [f"replica-{number}" for number in range(5)]
    assert homes(names) == homes(list(reversed(names)))
    pinned = SessionAffinity().choose("session-0", [candidate(name) for name in names])
    assert pinned.replica_id == "replica-3", "a gateway of the next release has to find it as well"


@given(st.integers(2, 8), st.data())
def test_who_goes_moves_its_own_sessions_alone(number: int, data: st.DataObject) -> None:
    names = [f"replica-{each}" for each in range(number)]
    gone = data.draw(st.sampled_from(names))
    before, after = homes(names), homes([name for name in names if name != gone])
    moved = {key for key in KEYS if before[key] != after[key]}
    assert moved == {key for key in KEYS if before[key] == gone}


def test_sessions_spread_evenly() -> None:
    counts = Counter(homes([f"replica-{number}" for number in range(4)]).values())
    assert len(counts) == 4
    assert min(counts.values()) > 60, "100 each, were they counted out"


def test_an_overloaded_replica_loses_a_session_until_it_has_room_and_always_to_the_same() -> None:
    affinity = SessionAffinity()
    candidates = [candidate(f"replica-{number}", 3) for number in range(4)]
    home = affinity.choose("session-1", candidates)
    home.num_outstanding = 40
    second = affinity.choose("session-1", candidates)
    assert second is not home
    assert affinity.choose("session-1", candidates) is second
    home.num_outstanding = 4
    assert affinity.choose("session-1", candidates) is home


def test_a_quiet_fleet_is_never_overloaded() -> None:
    candidates = [candidate("a", 4), candidate("b"), candidate("c")]
    assert any(SessionAffinity().choose(key, candidates) is candidates[0] for key in KEYS)
