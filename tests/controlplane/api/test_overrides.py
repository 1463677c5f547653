"""Break-glass through the API: by operators, for a time, in every gateway's snapshot."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controlplane.api.trouble import OverrideFacts, find_trouble
from dataplane.access import Role
from dataplane.clock import wall_clock
from dataplane.policy import OverrideKind, Snapshot, decode_snapshot
from dataplane.report import OverrideReport
from tests.controlplane.guarded_plane import GuardedPlane, guarded_service, log_in
from tests.controlplane.quiet_gateway import quiet_report

_BYPASS = {"kind": "bypass", "deployment": "chat", "lasts": "30m", "reason": "launch day"}
_PIN = {
    "kind": "pin_policy",
    "deployment": "chat",
    "lasts": "2h",
    "reason": "x",
    "policy": "chat@1",
}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_service(tmp_path) as plane:
        yield plane


@pytest.fixture
def operator(plane: GuardedPlane) -> TestClient:
    return plane.bearing(plane.key(Role.OPERATOR, name="anna"))


def make(caller: TestClient, body: dict[str, Any]) -> dict[str, Any]:
    answer = caller.post("/api/v1/overrides", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def listed(caller: TestClient, path: str = "/api/v1/overrides") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = caller.get(path).json()["overrides"]
    return found


def published(plane: GuardedPlane, num_overrides: int) -> Snapshot:
    """The snapshot that gateways are sent, once it carries so many."""
    for _ in range(200):
        current = plane.app.state.snapshots.current
        if current is not None:
            snapshot = decode_snapshot(current.data)
            if len(snapshot.overrides) == num_overrides and snapshot.deployments:
                return snapshot
        time.sleep(0.05)
    raise AssertionError(f"no snapshot carries {num_overrides} overrides")


def test_what_an_operator_makes_is_in_the_next_snapshot_with_all_that_enforcing_it_needs(
    plane: GuardedPlane, operator: TestClient
) -> None:
    made = make(operator, _PIN)
    assert (made["effect"], made["created_by"]) == ("policy chat@1 is pinned", "anna")
    (carried,) = published(plane, 1).overrides
    assert carried.override_id == made["override_id"]
    assert carried.kind is OverrideKind.PIN_POLICY
    assert carried.policy is not None
    assert [each.name for each in carried.policy.classes] == ["interactive", "batch"]
    assert carried.until_unix_ns - carried.created_at_unix_ns == 7200 * 10**9


def test_ended_early_it_leaves_the_snapshot_and_stays_in_the_history(
    plane: GuardedPlane, operator: TestClient
) -> None:
    made = make(operator, _BYPASS)
    published(plane, 1)
    path = f"/api/v1/overrides/{made['override_id']}"
    assert operator.delete(path).status_code == 422, "a reason belongs to it"
    ended = operator.delete(path, params={"reason": "calm again"}).json()
    assert (ended["is_in_force"], ended["ended_by"]) == (False, "anna")
    assert ended["end_reason"] == "calm again"
    assert operator.delete(path, params={"reason": "twice"}).status_code == 409
    published(plane, 0)
    assert listed(operator) == []
    assert [each["override_id"] for each in listed(operator, "/api/v1/overrides?all=true")] == [
        made["override_id"]
    ]


def test_only_operators_and_admins_may(plane: GuardedPlane, operator: TestClient) -> None:
    made = make(operator, _BYPASS)
    viewer = plane.bearing(plane.key(Role.VIEWER))
    assert [each["override_id"] for each in listed(viewer)] == [made["override_id"]]
    for role, tenant in ((Role.VIEWER, None), (Role.GATEWAY, None), (Role.CLIENT, "default")):
        caller = plane.bearing(plane.key(role, tenant, name=f"some-{role}"))
        assert caller.post("/api/v1/overrides", json=_BYPASS).status_code == 403, role
        path = f"/api/v1/overrides/{made['override_id']}?reason=no"
        assert caller.delete(path).status_code == 403, role
    assert len(listed(operator)) == 1


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        ({"deployment": "nobody"}, 409, "no deployment 'nobody'"),
        ({"request_class": "nobody"}, 409, "it has interactive, batch"),
        ({"lasts": "25h"}, 409, "may_be_longer"),
        ({"lasts": "30"}, 422, "not a duration"),
        ({"reason": ""}, 422, "reason"),
        ({"kind": "smash"}, 422, "kind"),
        ({"forever": True}, 422, "forever"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_place(
    operator: TestClient, change: dict[str, Any], status: int, why: str
) -> None:
    answer = operator.post("/api/v1/overrides", json=_BYPASS | change)
    assert answer.status_code == status, answer.text
    assert why in answer.text
    assert listed(operator) == []


def test_it_says_which_gateways_enforce_it_and_which_do_not_yet(
    plane: GuardedPlane, operator: TestClient
) -> None:
    made = make(operator, _BYPASS)
    mine = OverrideReport(
        override_id=made["override_id"], deployment="chat", kind=OverrideKind.BYPASS
    )
    for name, overrides in (("gateway-0", (mine,)), ("gateway-1", ())):
        plane.app.state.observed.put_gateway(quiet_report(name=name, overrides=overrides))
    (seen,) = listed(operator)
    assert (seen["gateways"], seen["missing_gateways"]) == (["gateway-0"], ["gateway-1"])


def test_it_is_a_trouble_of_its_deployment_with_the_way_to_end_it(
    plane: GuardedPlane, operator: TestClient
) -> None:
    made = make(operator, _BYPASS)
    troubles = operator.get("/api/v1/overview").json()["troubles"]
    (mine,) = [each for each in troubles if "limits are off" in each["what"]]
    assert (mine["severity"], mine["deployment"]) == ("ticket", "chat")
    assert "by anna: launch day" in mine["what"]
    assert f"pilothouse override end {made['override_id']}" in mine["remedy"]


def test_pinned_to_replicas_none_of_which_is_ready_is_a_page() -> None:
    facts = OverrideFacts(
        override_id="a",
        deployment="chat",
        effect="new requests go to r1 alone",
        created_by="anna",
        reason="x",
        until_unix_ns=wall_clock(),
        lacks_replicas=True,
    )
    (trouble,) = find_trouble([], [], overrides=[facts])
    assert trouble.severity == "page"
    assert "none of them is ready" in trouble.what


def test_the_audit_has_its_beginning_and_its_end(operator: TestClient) -> None:
    made = make(operator, _BYPASS)
    operator.delete(f"/api/v1/overrides/{made['override_id']}", params={"reason": "over"})
    events = operator.get("/api/v1/audit", params={"action": "override"}).json()["events"]
    assert [(each["action"], each["actor"]) for each in events] == [
        ("override.end", "anna"),
        ("override.create", "anna"),
    ]
    assert events[0]["before"] == events[1]["after"]


def test_the_banner_is_on_every_page_until_it_ends_and_strangers_see_none(
    plane: GuardedPlane, operator: TestClient
) -> None:
    plane.user("bo", Role.OPERATOR)
    browser = plane.browser()
    made = make(operator, _BYPASS)
    assert "limits are off" not in browser.get("/login").text
    token = log_in(browser, "bo")
    pages = ("/", "/requests", "/deployments", "/config", "/audit", "/break-glass", "/nowhere")
    for path in pages:
        assert "limits are off" in browser.get(path).text, path
    form = {"override_id": made["override_id"], "reason": "calm again"}
    assert browser.post("/break-glass/end", data=form).status_code == 403, "no token, no change"
    answer = browser.post("/break-glass/end", data=form | {"csrf_token": token})
    assert answer.status_code == 303
    for path in ("/", "/requests", "/nowhere"):
        assert "limits are off" not in browser.get(path).text, path


def test_a_form_that_cannot_be_meant_comes_back_as_it_was_filled_in(plane: GuardedPlane) -> None:
    plane.user("bo", Role.OPERATOR)
    browser = plane.browser()
    token = log_in(browser, "bo")
    form = {
        "kind": "pin_policy",
        "deployment": "chat",
        "lasts": "1h",
        "reason": "rollback <b>",
        "policy": "chat@9",
        "csrf_token": token,
    }
    refused = browser.post("/break-glass", data=form)
    assert refused.status_code == 422
    assert "no AdmissionPolicy chat@9" in refused.text
    assert 'value="rollback &lt;b&gt;"' in refused.text
    made = browser.post("/break-glass", data=form | {"policy": "chat@1"})
    assert made.status_code == 303
    assert "policy chat@1 is pinned" in browser.get("/break-glass").text


def test_a_viewer_sees_what_is_in_force_and_no_forms(
    plane: GuardedPlane, operator: TestClient
) -> None:
    plane.user("bo", Role.VIEWER)
    browser = plane.browser()
    make(operator, _BYPASS)
    token = log_in(browser, "bo")
    shown = browser.get("/break-glass").text
    assert "limits are off" in shown
    assert "<form class" not in shown.partition("<main")[2]
    form = {"kind": "bypass", "deployment": "chat", "lasts": "1h", "reason": "r"}
    assert browser.post("/break-glass", data=form | {"csrf_token": token}).status_code == 403
