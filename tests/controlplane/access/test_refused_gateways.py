"""A gateway that is refused for its key is told from one that is silent."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from controlplane.access.refused_gateways import RefusedGateways
from controlplane.operator.observed import ObservedState
from controlplane.process_history import ProcessHistory
from controlplane.store.access_keys import add_key, revoke_key
from controlplane.store.database import Database, DatabaseKind
from dataplane.access import Role
from tests.controlplane.guarded_plane import GuardedPlane, guarded_plane
from tests.controlplane.quiet_gateway import quiet_report
from tests.databases import Databases

SECOND = 10**9


class Room:
    """A database of keys, what is observed, and a clock that is moved by hand."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.now = 1_000 * SECOND
        self.database = database
        self.observed = ObservedState(lambda: self.now)
        self.history = ProcessHistory(folder)
        self.refused = RefusedGateways(database, self.observed, self.history, lambda: self.now)

    def key(self, name: str = "gateway-0", expires: int | None = None) -> str:
        with self.database.session() as session:
            return add_key(
                session, name=name, role=Role.GATEWAY, tenant=None, expires_at_unix_ns=expires,
                actor="test", clock=lambda: self.now,
            ).text  # fmt: skip

    def revoke(self, name: str = "gateway-0") -> None:
        with self.database.session() as session:
            revoke_key(session, name, actor="test", clock=lambda: self.now)

    def why(self) -> dict[str, str]:
        return {name: refusal.why for name, refusal in self.observed.refusals().items()}

    def events(self) -> list[tuple[str, str]]:
        return [(each.what, each.reason) for each in self.history.read(10)][::-1]


@pytest.fixture
def room(databases: Databases, tmp_path: Path) -> Iterator[Room]:
    database = databases.open(DatabaseKind.CONFIG)
    yield Room(database, tmp_path)
    database.close()


def test_who_proves_that_a_revoked_key_was_its_own_is_named_with_that(room: Room) -> None:
    token = room.key()
    room.revoke()
    for _ in range(3):
        room.refused.note_refused("gateway-0", token)
    assert room.why() == {"gateway-0": "its key was revoked"}
    assert room.events() == [("refused", "its key was revoked")], "told once, not every second"


def test_an_expired_key_is_told_from_a_revoked_one(room: Room) -> None:
    token = room.key(expires=room.now + SECOND)
    room.now += 2 * SECOND
    room.refused.note_refused("gateway-0", token)
    assert room.why() == {"gateway-0": "its key has expired"}


def test_a_stranger_can_make_up_no_gateway_and_prove_nothing_of_a_known_one(room: Room) -> None:
    token = room.key()
    room.revoke()
    other_secret = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    room.refused.note_refused("gateway-0", other_secret)
    assert room.why() == {}
    room.observed.put_gateway(quiet_report())
    room.refused.note_refused("gateway-0", other_secret)
    assert room.why() == {"gateway-0": "calls in its name come with a key that is not valid"}


def test_a_gateway_that_is_let_in_again_is_refused_no_more(room: Room) -> None:
    token = room.key()
    room.revoke()
    room.refused.note_refused("gateway-0", token)
    room.now += 6 * SECOND
    room.refused.note_accepted("gateway-0")
    assert room.why() == {}
    assert [what for what, _ in room.events()] == ["refused", "accepted"]


def test_two_processes_of_one_name_of_which_one_is_refused_fill_no_history(room: Room) -> None:
    token = room.key()
    room.revoke()
    for _ in range(20):
        room.refused.note_refused("gateway-0", token)
        room.now += SECOND
        room.refused.note_accepted("gateway-0")
    assert room.events() == [("refused", "its key was revoked")]


def test_who_calls_no_more_is_only_silent(room: Room) -> None:
    token = room.key()
    room.revoke()
    room.refused.note_refused("gateway-0", token)
    room.now += 90 * SECOND
    assert room.why() == {}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as made:
        yield made


def test_a_revoked_gateway_is_told_by_the_api_and_the_overview(plane: GuardedPlane) -> None:
    viewer = plane.bearing(plane.key(Role.VIEWER))
    gateway = plane.bearing(plane.key(Role.GATEWAY, name="gateway-0"))
    body = msgspec.json.encode(quiet_report())
    assert gateway.put("/api/v1/gateways/gateway-0", content=body).status_code == 204
    assert viewer.get("/api/v1/gateways").json()["refused"] == []
    with plane.app.state.config_db.session() as session:
        revoke_key(session, "gateway-0", actor="test")
    plane.app.state.directory.forget()

    assert gateway.put("/api/v1/gateways/gateway-0", content=body).status_code == 401

    told = viewer.get("/api/v1/gateways").json()
    assert [(each["name"], each["why"]) for each in told["refused"]] == [
        ("gateway-0", "its key was revoked")
    ]
    assert told["gateways"][0]["refused_because"] == "its key was revoked"
    [event] = viewer.get("/api/v1/processes/history").json()["history"]
    assert (event["name"], event["what"]) == ("gateway-0", "refused")


def test_a_gateway_that_never_reported_here_and_is_refused_is_trouble(plane: GuardedPlane) -> None:
    viewer = plane.bearing(plane.key(Role.VIEWER))
    gateway = plane.bearing(plane.key(Role.GATEWAY, name="gateway-7"))
    with plane.app.state.config_db.session() as session:
        revoke_key(session, "gateway-7", actor="test")
    gateway.put("/api/v1/gateways/gateway-7", content=b"{}")
    [trouble] = viewer.get("/api/v1/overview").json()["troubles"]
    assert trouble["what"].startswith("gateway-7 runs and is refused: its key was revoked")
    assert "gateway-refused" in trouble["remedy"]
