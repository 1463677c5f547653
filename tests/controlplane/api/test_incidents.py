"""Incidents through the API: what, since when, what changed before, who looks after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from controlplane.store.counts import add_counts
from controlplane.store.incident import FoundFinding
from controlplane.store.incidents import open_incident, resolve_incident, see_again
from controlplane.store.request_rows import CountKey
from dataplane.access import Role
from dataplane.clock import wall_clock
from tests.controlplane.config_documents import SERVICE
from tests.controlplane.guarded_plane import GuardedPlane, guarded_plane

_S = 10**9
_FOUND = FoundFinding(
    rule_id="cache-thrash",
    mechanism="cache.thrash",
    confidence="certain",
    finding={"mechanism": "cache.thrash", "evidence": ["preemptions 371 -> 603 in 60 s"]},
)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(SERVICE)]
        admin = plane.bearing(plane.key(Role.ADMIN, name="root"))
        answer = admin.post("/api/v1/apply", json={"files": files, "reason": "fewer seats"})
        assert answer.status_code == 200, answer.text
        yield plane


@pytest.fixture
def operator(plane: GuardedPlane) -> TestClient:
    return plane.bearing(plane.key(Role.OPERATOR, name="anna"))


@pytest.fixture
def incident_id(plane: GuardedPlane) -> str:
    """One that was opened two minutes after the config was applied."""
    with plane.app.state.config_db.session() as session:
        now = wall_clock() + 120 * 10**9
        return open_incident(session, "chat", [_FOUND], None, now).incident_id


def test_it_is_listed_by_deployment_state_and_mechanism(
    operator: TestClient, incident_id: str
) -> None:
    def ids(query: str) -> list[str]:
        listed = operator.get(f"/api/v1/incidents{query}").json()["incidents"]
        return [each["incident_id"] for each in listed]

    assert ids("") == ids("?deployment=chat&state=open&mechanism=cache.thrash") == [incident_id]
    assert ids("?state=resolved") == ids("?deployment=other") == ids("?mechanism=host.bound") == []
    assert operator.get("/api/v1/incidents?state=gone").status_code == 422


def test_whole_it_says_what_was_found_and_what_was_changed_before_with_its_lag(
    operator: TestClient, incident_id: str
) -> None:
    detail = operator.get(f"/api/v1/incidents/{incident_id}").json()
    assert detail["incident"]["mechanism"] == "cache.thrash"
    assert detail["incident"]["runbook"] == "ops/runbooks/cache-thrash.md"
    assert detail["findings"][0]["finding"]["evidence"] == ["preemptions 371 -> 603 in 60 s"]
    assert [event["kind"] for event in detail["events"]] == ["opened"]
    config = [change for change in detail["changes"] if change["kind"] == "config"]
    assert "fewer seats" in config[0]["text"]
    assert 110 < config[0]["lag_seconds"] < 130
    assert detail["hurt"] == []
    assert "deployment=chat" in detail["requests_query"]


def test_an_operator_acknowledges_notes_and_resolves_and_the_timeline_says_who(
    operator: TestClient, incident_id: str
) -> None:
    path = f"/api/v1/incidents/{incident_id}"
    for action in ("acknowledge", "notes", "resolve"):
        answer = operator.post(f"{path}/{action}", json={"what": f"I {action}"})
        assert answer.status_code == 200, answer.text
    events = operator.get(path).json()["events"]
    assert [(e["kind"], e["actor"], e["what"]) for e in events[1:]] == [
        ("acknowledged", "anna", "I acknowledge"),
        ("note", "anna", "I notes"),
        ("resolved", "anna", "I resolve"),
    ]
    again = operator.post(f"{path}/resolve", json={"what": "again"})
    assert (again.status_code, "resolved already" in again.text) == (409, True)


def test_what_cannot_be_meant_is_refused(operator: TestClient, incident_id: str) -> None:
    assert operator.get("/api/v1/incidents/none").status_code == 404
    assert operator.post("/api/v1/incidents/none/resolve", json={"what": "x"}).status_code == 404
    path = f"/api/v1/incidents/{incident_id}/acknowledge"
    for body in ({}, {"what": ""}, {"what": "x" * 1025}, {"what": "x", "who": "y"}):
        assert operator.post(path, json=body).status_code == 422, body


def test_viewers_read_and_do_not_write_and_tenants_do_not_even_read(
    plane: GuardedPlane, incident_id: str
) -> None:
    path = f"/api/v1/incidents/{incident_id}"
    viewer = plane.bearing(plane.key(Role.VIEWER))
    assert viewer.get(path).status_code == 200
    assert viewer.post(f"{path}/acknowledge", json={"what": "me"}).status_code == 403
    bound = plane.bearing(plane.key(Role.VIEWER, "default", name="bound"))
    assert bound.get("/api/v1/incidents").status_code == 403
    assert bound.get(path).status_code == 403


def test_requests_are_counted_while_it_was_open_and_not_in_between(
    plane: GuardedPlane, operator: TestClient
) -> None:
    """Open from minute 10 to 13 and again since minute 20; a request failed in each minute."""
    base = wall_clock() // (60 * _S) * 60 - 30 * 60
    at = [(base + minute * 60 + 5) * _S for minute in range(21)]
    counts = {
        CountKey(at_ns // _S // 60 * 60, "chat", "all", "a", "chat@1", measure): 1
        for at_ns in at
        for measure in ("offered", "disposition.error")
    }
    with plane.app.state.request_db.session() as session:
        add_counts(session, counts)
    with plane.app.state.config_db.session() as session:
        known = open_incident(session, "chat", [_FOUND], None, at[10]).incident_id
        resolve_incident(session, known, "not seen", at[13])
        see_again(session, known, [_FOUND], at[20], at[20] - 2 * _S)
        resolve_incident(session, known, "not seen", at[20] + 10 * _S)
    detail = operator.get(f"/api/v1/incidents/{known}").json()
    assert (detail["num_offered"], detail["num_failed"]) == (5, 5)
    assert [each["since_unix_ns"] for each in detail["incident"]["spells"]] == [
        None,
        at[20] - 2 * _S,
    ]


def test_one_that_flaps_for_days_is_counted_in_few_queries(
    plane: GuardedPlane, operator: TestClient
) -> None:
    """Open in every second minute, three hundred times; a request failed in each minute."""
    times, base = 300, wall_clock() // (3600 * _S) * 3600 - 40 * 3600
    counts = {
        CountKey(base + minute * 60, "chat", "all", "a", "chat@1", "offered"): 1
        for minute in range(2 * times)
    }
    with plane.app.state.request_db.session() as session:
        add_counts(session, counts)
    with plane.app.state.config_db.session() as session:
        known = open_incident(session, "chat", [_FOUND], None, base * _S).incident_id
        for number in range(1, times):
            at = base + number * 120
            resolve_incident(session, known, "over", (at - 90) * _S)
            see_again(session, known, [_FOUND], at * _S)
        resolve_incident(session, known, "over", (at + 30) * _S)
    queries: list[str] = []
    engine = plane.app.state.request_db.engine
    event.listen(engine, "before_cursor_execute", lambda *said: queries.append(said[2]))
    detail = operator.get(f"/api/v1/incidents/{known}").json()
    assert detail["num_offered"] == times
    assert len([each for each in queries if "sum(" in each.lower()]) <= 10
    [listed] = operator.get("/api/v1/incidents").json()["incidents"]
    assert listed["spells"] == detail["incident"]["spells"][-20:]
