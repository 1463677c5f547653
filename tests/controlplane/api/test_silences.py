"""Silences and maintenance windows through the API: planned first, by operators, for a time."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controlplane.slo.silences import SilenceKind, SilenceScope
from controlplane.store.counts import add_counts
from controlplane.store.request_rows import CountKey
from controlplane.store.series import MinuteSample, add_samples
from controlplane.store.silences import NewSilence, add_silence
from dataplane import names
from dataplane.access import Role
from tests.controlplane.guarded_plane import GuardedPlane, guarded_service, log_in

_HOUR_NS = 3600 * 10**9
_SILENCE = {"kind": "silence", "deployment": "chat", "lasts": "2h", "reason": "anna is on it"}
_EVERYTHING = {"kind": "silence", "everything": True, "lasts": "2h", "reason": "anna is on it"}
_MAINTENANCE = {
    "kind": "maintenance",
    "deployment": "chat",
    "request_class": "interactive",
    "lasts": "1h",
    "reason": "new disks",
}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_service(tmp_path) as plane:
        yield plane


@pytest.fixture
def operator(plane: GuardedPlane) -> TestClient:
    return plane.bearing(plane.key(Role.OPERATOR, name="anna"))


def make(caller: TestClient, body: dict[str, Any]) -> dict[str, Any]:
    answer = caller.post("/api/v1/silences", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def listed(caller: TestClient, path: str = "/api/v1/silences") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = caller.get(path).json()["silences"]
    return found


def burn(plane: GuardedPlane, minutes_ago: tuple[int, ...] = tuple(range(60))) -> int:
    """Ten bad ones of twenty in each of those minutes before the one that is returned."""
    now = int(time.time()) // 60 * 60
    sample = MinuteSample(minute_unix=now, deployment="chat", num_gateways=1, active=1, queued=0)
    of_all = MinuteSample(minute_unix=now, deployment="", num_gateways=1, active=1, queued=0)
    with plane.app.state.request_db.session() as session:
        add_samples(session, [sample, of_all])
        for ago in minutes_ago:
            names = (now - ago * 60, "chat", "interactive", "acme", "chat@1")
            add_counts(
                session,
                {
                    CountKey(*names, "objective.ttft.good"): 10,
                    CountKey(*names, "objective.ttft.total"): 20,
                },
            )
    return now


def standing(caller: TestClient) -> dict[str, Any]:
    found = caller.get("/api/v1/slo?deployment=chat").json()["standings"]
    (only,) = [each for each in found if each["objective"] == "ttft"]
    made: dict[str, Any] = only
    return made


def test_an_alert_that_is_silenced_fires_on_and_says_until_when_and_by_whom(
    plane: GuardedPlane, operator: TestClient
) -> None:
    burn(plane)
    loud = standing(operator)
    assert loud["firing"]
    assert {each["silenced"] for each in loud["firing"]} == {None}
    made = make(operator, _SILENCE)
    quiet = standing(operator)
    assert [each["grade"] for each in quiet["firing"]] == [each["grade"] for each in loud["firing"]]
    assert {each["silenced"]["silence_id"] for each in quiet["firing"]} == {made["silence_id"]}
    assert {each["silenced"]["by"] for each in quiet["firing"]} == {"anna"}
    assert quiet["state"] == "breaching"
    assert quiet["budget_remaining"] == loud["budget_remaining"]


def test_a_silence_is_told_where_nothing_fires_and_not_of_what_it_does_not_touch(
    operator: TestClient,
) -> None:
    def told(deployment: str) -> list[str]:
        answer = operator.get("/api/v1/slo", params={"deployment": deployment}).json()
        assert not any(each["firing"] for each in answer["standings"])
        return [each["silence_id"] for each in answer["silences"]]

    assert told("chat") == []
    narrow = make(operator, _SILENCE | {"request_class": "interactive", "objective": "ttft"})
    make(operator, _MAINTENANCE | {"from_unix_ns": time.time_ns() + _HOUR_NS})
    assert told("chat") == [narrow["silence_id"]]
    assert "Nobody is told here of alerts of" in operator.get("/slo/chat").text
    ended = f"/api/v1/silences/{narrow['silence_id']}"
    assert operator.delete(ended, params={"reason": "mended"}).status_code == 200
    assert told("chat") == []


def test_a_silence_of_tickets_lets_pages_through(plane: GuardedPlane, operator: TestClient) -> None:
    burn(plane)
    make(operator, _SILENCE | {"severity": "ticket"})
    firing = standing(operator)["firing"]
    silenced = {each["severity"]: each["silenced"] is not None for each in firing}
    assert silenced == {"page": False, "ticket": True}


def test_what_was_spent_in_maintenance_is_told_apart_and_never_taken_out(
    plane: GuardedPlane, operator: TestClient
) -> None:
    minute = burn(plane, (600, 601, 602, 603))
    before = standing(operator)
    assert before["maintenance"] is None
    two_minutes = NewSilence(
        kind=SilenceKind.MAINTENANCE,
        scope=SilenceScope(deployment="chat"),
        reason="new disks",
        seconds=120,
    )
    began_at_unix_ns = (minute - 603 * 60) * 10**9
    with plane.app.state.config_db.session() as session:
        add_silence(session, two_minutes, actor="anna", clock=lambda: began_at_unix_ns)
    after = standing(operator)
    assert after["maintenance"] == {"seconds": 120, "num_bad": 20, "share_of_spent": 0.5}
    assert after["budget_remaining"] == before["budget_remaining"]
    assert after["num_good"] == before["num_good"]


def test_a_plan_says_what_would_be_kept_back_and_makes_nothing(
    plane: GuardedPlane, operator: TestClient
) -> None:
    burn(plane)
    other = make(operator, _SILENCE | {"severity": "ticket"})
    answer = operator.post("/api/v1/silences/plan", json=_MAINTENANCE | {"objective": "ttft"})
    assert answer.status_code == 200, answer.text
    planned = answer.json()
    (promise,) = planned["promises"]
    assert (promise["request_class"], promise["objective"]) == ("interactive", "ttft")
    assert "page_quick" in promise["fires"]
    assert promise["num_bad"] * 2 == promise["num_judged"] > 0
    assert planned["silence"]["state"] == "in_force"
    assert planned["covers_other_alerts"] is False
    assert planned["overlapping"] == [other["silence_id"]]
    assert [each["silence_id"] for each in listed(operator)] == [other["silence_id"]]
    of_all = operator.post("/api/v1/silences/plan", json=_SILENCE).json()
    assert of_all["covers_other_alerts"] is True
    assert len(of_all["promises"]) > 1


def test_maintenance_is_planned_ahead_called_off_and_kept(operator: TestClient) -> None:
    begins = time.time_ns() + 24 * _HOUR_NS
    made = make(operator, _MAINTENANCE | {"from_unix_ns": begins})
    assert (made["state"], made["what"]) == ("planned", "chat, class interactive")
    assert made["until_unix_ns"] == begins + _HOUR_NS
    path = f"/api/v1/silences/{made['silence_id']}"
    assert operator.delete(path).status_code == 422, "a reason belongs to it"
    ended = operator.delete(path, params={"reason": "not today"}).json()
    assert (ended["state"], ended["ended_by"], ended["end_reason"]) == ("over", "anna", "not today")
    assert operator.delete(path, params={"reason": "twice"}).status_code == 409
    assert operator.delete("/api/v1/silences/none", params={"reason": "x"}).status_code == 404
    assert listed(operator) == []
    assert [each["silence_id"] for each in listed(operator, "/api/v1/silences?all=true")] == [
        made["silence_id"]
    ]


@pytest.mark.parametrize("wanted", [_SILENCE, _EVERYTHING])
def test_metrics_tell_what_is_in_force_and_not_what_is_planned(
    plane: GuardedPlane, operator: TestClient, wanted: dict[str, Any]
) -> None:
    made = make(operator, wanted)
    ahead = time.time_ns() + _HOUR_NS
    make(operator, wanted | {"kind": "maintenance", "from_unix_ns": ahead})
    whose = wanted.get("deployment", "")
    series = f'{names.CONTROLPLANE_SILENCES}{{deployment="{whose}",kind="silence"}} 1.0'
    viewer = plane.bearing(plane.key(Role.VIEWER))
    told = viewer.get("/metrics").text
    assert series in told
    assert 'kind="maintenance"' not in told
    operator.delete(f"/api/v1/silences/{made['silence_id']}?reason=mended")
    assert series not in viewer.get("/metrics").text


def test_a_silence_of_everything_is_on_every_page_and_one_of_a_deployment_is_not(
    plane: GuardedPlane, operator: TestClient
) -> None:
    plane.user("bo", Role.OPERATOR)
    browser = plane.browser()
    assert "anna is on it" not in browser.get("/login").text, "nothing is told to strangers"
    log_in(browser, "bo")
    make(operator, _SILENCE)
    banner = 'aria-label="Silences of everything"'
    assert banner not in browser.get("/requests").text
    made = make(operator, _EVERYTHING | {"severity": "page"})
    for path in ("/", "/requests", "/nowhere"):
        shown = browser.get(path).text.partition(banner)[2].partition("</aside>")[0]
        assert "pages only" in shown, path
        assert "anna is on it" in shown, path
    assert banner not in plane.browser().get("/login").text
    operator.delete(f"/api/v1/silences/{made['silence_id']}?reason=mended")
    assert banner not in browser.get("/requests").text


def test_only_operators_and_admins_may(plane: GuardedPlane, operator: TestClient) -> None:
    made = make(operator, _SILENCE)
    viewer = plane.bearing(plane.key(Role.VIEWER))
    assert [each["silence_id"] for each in listed(viewer)] == [made["silence_id"]]
    for role, tenant in ((Role.VIEWER, None), (Role.GATEWAY, None), (Role.CLIENT, "default")):
        caller = plane.bearing(plane.key(role, tenant, name=f"some-{role}"))
        assert caller.post("/api/v1/silences", json=_SILENCE).status_code == 403, role
        assert caller.post("/api/v1/silences/plan", json=_SILENCE).status_code == 403, role
        path = f"/api/v1/silences/{made['silence_id']}?reason=no"
        assert caller.delete(path).status_code == 403, role
    assert len(listed(operator)) == 1


@pytest.mark.parametrize("path", ["/api/v1/silences", "/api/v1/silences/plan"])
@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        ({"deployment": "nobody"}, 409, "there are chat"),
        ({"deployment": None}, 409, "every deployment"),
        ({"request_class": "nobody"}, 409, "the contract has interactive"),
        ({"objective": "speed"}, 409, "the contract has availability"),
        ({"lasts": "25h"}, 409, "may_be_longer"),
        ({"from_unix_ns": 5}, 409, "begins at once"),
        ({"lasts": "30"}, 422, "not a duration"),
        ({"reason": ""}, 422, "reason"),
        ({"severity": "loud"}, 422, "severity"),
        ({"forever": True}, 422, "forever"),
    ],
)
def test_what_would_silence_nothing_is_refused_with_the_place(
    operator: TestClient, path: str, change: dict[str, Any], status: int, why: str
) -> None:
    answer = operator.post(path, json=_SILENCE | change)
    assert answer.status_code == status, answer.text
    assert why in answer.text
    assert listed(operator) == []


def test_the_audit_has_it(operator: TestClient) -> None:
    made = make(operator, _SILENCE)
    (event,) = operator.get("/api/v1/audit", params={"action": "silence"}).json()["events"]
    assert (event["action"], event["actor"]) == ("silence.create", "anna")
    assert event["subject"] == f"silence/{made['silence_id']}"


def test_forms_need_their_token_and_a_viewer_sees_none(
    plane: GuardedPlane, operator: TestClient
) -> None:
    plane.user("bo", Role.OPERATOR)
    plane.user("vic", Role.VIEWER)
    make(operator, _SILENCE)
    browser, viewer = plane.browser(), plane.browser()
    token = log_in(browser, "bo")
    for path in ("/silences/plan", "/silences", "/silences/end"):
        assert browser.post(path, data=_SILENCE).status_code == 403, "no token, no change"
    made = browser.post("/silences", data=_SILENCE | {"csrf_token": token})
    assert made.status_code == 303
    assert {each["created_by"] for each in listed(operator)} == {"anna", "bo"}
    viewers_token = log_in(viewer, "vic")
    shown = viewer.get("/silences").text
    assert "anna is on it" in shown
    assert "<form class" not in shown.partition("<main")[2]
    refused = viewer.post("/silences/plan", data=_SILENCE | {"csrf_token": viewers_token})
    assert refused.status_code == 403
    for path in ("/slo", "/slo/chat"):
        assert viewer.get(path).status_code == 200, path
