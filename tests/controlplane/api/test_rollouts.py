"""Rollouts through the API: seen by viewers, moved by operators, under the caller's name."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from dataplane import names
from dataplane.access import Role
from dataplane.policy import decode_snapshot
from tests.controlplane.guarded_plane import GuardedPlane, guarded_plane, log_in
from tests.controlplane.rolling_documents import OTHER_POLICY, ROLLING_SERVICE

_PATH = "/api/v1/rollouts"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    """Rollout 1 of chat, to another policy, has begun its first step."""
    with guarded_plane(tmp_path) as plane:
        apply(plane, *ROLLING_SERVICE)
        apply(plane, OTHER_POLICY)
        wait_for(plane, "running")
        yield plane


@pytest.fixture
def operator(plane: GuardedPlane) -> TestClient:
    return plane.bearing(plane.key(Role.OPERATOR, name="anna"))


def apply(plane: GuardedPlane, *texts: str) -> None:
    admin = plane.bearing(plane.key(Role.ADMIN, name=f"root-{time.time_ns()}"))
    files = [{"name": f"f{number}.yaml", "text": text} for number, text in enumerate(texts)]
    answer = admin.post("/api/v1/apply", json={"files": files, "reason": "longer queue"})
    assert answer.status_code == 200, answer.text


def wait_for(plane: GuardedPlane, state: str) -> None:
    viewer = plane.bearing(plane.key(Role.VIEWER, name=f"viewer-{time.time_ns()}"))
    deadline = time.monotonic() + 20
    while viewer.get(f"{_PATH}/1").json()["rollout"]["state"] != state:
        assert time.monotonic() < deadline, f"it never was {state}"
        time.sleep(0.05)


def ask(caller: TestClient, asked: str, **body: Any) -> Any:
    return caller.post(f"{_PATH}/1/{asked}", json={"reason": "because", **body})


def test_a_rollout_is_listed_with_what_it_changes(operator: TestClient) -> None:
    (it,) = operator.get(_PATH, params={"living": True}).json()["rollouts"]
    assert (it["number"], it["deployment"], it["state"]) == (1, "chat", "running")
    assert (it["step"], it["num_steps"], it["share"]) == (1, 3, 0.05)
    assert [each["text"] for each in it["changes"]] == ["policy chat@1 → chat@2"]
    assert operator.get(_PATH, params={"deployment": "nobody"}).json()["rollouts"] == []


def test_one_has_its_steps_its_arms_and_its_history(operator: TestClient) -> None:
    view = operator.get(f"{_PATH}/1").json()
    assert [each["place"] for each in view["steps"]] == ["current", "ahead", "ahead"]
    assert [each["pause"] for each in view["steps"]] == [False, True, False]
    assert (view["stable"]["policy"], view["candidate"]["policy"]) == ("chat@1", "chat@2")
    assert view["candidate"]["num_replicas"] is None, "a policy needs no replicas of its own"
    assert [each["state"] for each in view["moves"]] == ["waiting", "running"]
    assert view["moves"][-1]["actor"] == "pilothouse"
    assert view["demands"] == ["promote", "pause", "abort"]


def test_it_is_promoted_step_by_step_until_the_deployment_runs_the_candidate(
    plane: GuardedPlane, operator: TestClient
) -> None:
    places = []
    for step in (1, 2, 3):
        moved = ask(operator, "promote", step=step).json()["rollout"]
        places.append((moved["state"], moved["step"], moved["share"]))
    assert places == [("running", 2, 0.25), ("running", 3, 0.5), ("promoted", 3, 1.0)]
    (chat,) = operator.get("/api/v1/deployments").json()["deployments"]
    detail = operator.get("/api/v1/deployments/chat").json()
    assert chat["name"] == "chat"
    assert "chat@2" in [each["revision"] for each in detail["revisions"]]
    assert operator.get(_PATH, params={"living": True}).json()["rollouts"] == []


def test_gateways_hear_of_it(plane: GuardedPlane, operator: TestClient) -> None:
    ask(operator, "promote", step=1)
    deadline = time.monotonic() + 20
    while True:
        current = plane.app.state.snapshots.current
        terms = decode_snapshot(current.data).find_rollout("chat") if current else None
        if terms is not None and terms.share == 0.25:
            return
        assert time.monotonic() < deadline, "no snapshot gives the step's share"
        time.sleep(0.05)


def test_it_is_paused_and_resumed_with_who_and_why_in_history_and_audit(
    operator: TestClient,
) -> None:
    assert ask(operator, "pause", reason="lunch").json()["rollout"]["state"] == "paused"
    assert ask(operator, "pause").status_code == 409
    view = ask(operator, "resume", reason="back").json()
    assert view["rollout"]["state"] == "running"
    assert [(each["actor"], each["state"]) for each in view["moves"][2:]] == [
        ("anna", "paused"),
        ("anna", "running"),
    ]
    events = operator.get("/api/v1/audit", params={"action": "rollout"}).json()["events"]
    assert [each["actor"] for each in events[:2]] == ["anna", "anna"]
    assert {each["subject"] for each in events} == {"rollout/chat/1"}
    assert "lunch" in events[1]["reason"]


def test_what_was_aborted_is_retried_as_another_rollout(
    plane: GuardedPlane, operator: TestClient
) -> None:
    assert ask(operator, "retry").status_code == 409
    assert ask(operator, "abort").json()["rollout"]["share"] == 0
    apply(plane, OTHER_POLICY)
    assert operator.get(_PATH, params={"living": True}).json()["rollouts"] == [], "held back"
    view = ask(operator, "retry").json()
    assert (view["rollout"]["number"], view["rollout"]["created_by"]) == (2, "anna")
    refused = ask(operator, "retry")
    assert (refused.status_code, "rollout 1: " in refused.json()["detail"]) == (409, True)


def test_a_plan_says_what_would_happen_and_nothing_does(operator: TestClient) -> None:
    plan = operator.get(f"{_PATH}/1/plan", params={"asked": "promote"}).json()
    assert (plan["step"], plan["step_after"]) == (1, 2)
    assert (plan["share"], plan["share_after"]) == (0.05, 0.25)
    assert plan["candidate_replicas_after"] is None
    assert len(plan["effects"]) >= 3
    assert operator.get(f"{_PATH}/1").json()["rollout"]["step"] == 1
    assert operator.get(f"{_PATH}/1/plan", params={"asked": "resume"}).status_code == 409


def test_a_demand_for_a_step_that_is_over_is_refused(operator: TestClient) -> None:
    ask(operator, "promote", step=1)
    refused = ask(operator, "promote", step=1)
    assert refused.status_code == 409
    assert "step 2" in refused.json()["detail"]
    assert operator.get(f"{_PATH}/1").json()["rollout"]["step"] == 2


def test_what_cannot_be_meant_is_refused(operator: TestClient) -> None:
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("7/abort", {"reason": "x"}, 404),
        ("1/abort", {"reason": ""}, 422),
        ("1/abort", {}, 422),
        ("1/abort", {"reason": "x", "step": 0}, 422),
        ("1/abort", {"reason": "x", "force": True}, 422),
        ("1/smash", {"reason": "x"}, 422),
        ("0/abort", {"reason": "x"}, 422),
        (f"{2**63}/abort", {"reason": "x"}, 422),
    ]
    for path, body, status in cases:
        assert operator.post(f"{_PATH}/{path}", json=body).status_code == status, (path, body)
    assert operator.get(f"{_PATH}/1").json()["rollout"]["state"] == "running"


def test_none_with_that_number_is_404(operator: TestClient) -> None:
    assert operator.get(f"{_PATH}/7").status_code == 404
    assert operator.get(f"{_PATH}/7/plan", params={"asked": "abort"}).status_code == 404


def test_viewers_see_plans_and_only_operators_move_it(plane: GuardedPlane) -> None:
    viewer = plane.bearing(plane.key(Role.VIEWER))
    assert viewer.get(f"{_PATH}/1/plan", params={"asked": "abort"}).status_code == 200
    for role, tenant in ((Role.VIEWER, None), (Role.GATEWAY, None), (Role.CLIENT, "default")):
        caller = plane.bearing(plane.key(role, tenant, name=f"some-{role}"))
        assert ask(caller, "abort").status_code == 403, role
    bound = plane.bearing(plane.key(Role.VIEWER, "default", name="bound"))
    assert bound.get(_PATH).status_code == 403
    assert viewer.get(f"{_PATH}/1").json()["rollout"]["state"] == "running"


def override(caller: TestClient, **body: Any) -> Any:
    of = {} if body.get("all_deployments") else {"deployment": "chat"}
    wanted = {**of, "lasts": "1h", "reason": "the sale", **body}
    answer = caller.post("/api/v1/overrides", json=wanted)
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.mark.parametrize("of", [{}, {"all_deployments": True}])
def test_frozen_nobody_promotes_it_and_it_may_go_back(
    operator: TestClient, of: dict[str, Any]
) -> None:
    made = override(operator, kind="freeze", **of)
    view = operator.get(f"{_PATH}/1").json()
    assert (view["demands"], "the sale" in view["freeze"]) == (["pause", "abort"], True)
    refused = ask(operator, "promote")
    assert (refused.status_code, "the sale" in refused.json()["detail"]) == (409, True)
    operator.delete(f"/api/v1/overrides/{made['override_id']}?reason=over")
    assert ask(operator, "promote").json()["rollout"]["step"] == 2


def test_forced_it_stays_where_it_is_and_one_arm_gets_everything(operator: TestClient) -> None:
    for arm, share in (("stable", 0), ("candidate", 1)):
        made = override(operator, kind="force_arm", arm=arm)
        view = operator.get(f"{_PATH}/1").json()
        assert (view["rollout"]["share"], view["candidate"]["share"]) == (share, share)
        assert view["force"].startswith(arm)
        operator.delete(f"/api/v1/overrides/{made['override_id']}?reason=over")
    after = operator.get(f"{_PATH}/1").json()
    assert (after["rollout"]["share"], after["rollout"]["step"], after["force"]) == (0.05, 1, None)


def test_metrics_count_what_is_under_way_and_what_ended(
    plane: GuardedPlane, operator: TestClient
) -> None:
    living = f'{names.CONTROLPLANE_ROLLOUTS}{{deployment="chat",state="running"}} 1.0'
    ended = f'{names.CONTROLPLANE_ROLLOUTS_ENDED_TOTAL}{{reason="person",state="aborted"}} 1.0'
    before = operator.get("/metrics").text
    assert (living in before, ended in before) == (True, False)
    ask(operator, "abort")
    after = operator.get("/metrics").text
    assert (living in after, ended in after) == (False, True)


def test_forms_need_their_token_and_a_viewer_sees_none(plane: GuardedPlane) -> None:
    plane.user("bo", Role.OPERATOR)
    plane.user("vic", Role.VIEWER)
    browser, viewer = plane.browser(), plane.browser()
    token = log_in(browser, "bo")
    form = {"asked": "abort", "step": "1", "reason": "odd answers"}
    assert browser.post("/rollouts/1", data=form).status_code == 403, "no token, no change"
    viewers_token = log_in(viewer, "vic")
    for path in ("/rollouts/1", "/rollouts/1?ask=abort"):
        shown = viewer.get(path)
        assert shown.status_code == 200
        assert "<form" not in shown.text.partition("<main")[2].partition("</main>")[0], path
    refused = viewer.post("/rollouts/1", data=form | {"csrf_token": viewers_token})
    assert refused.status_code == 403
    done = browser.post("/rollouts/1", data=form | {"csrf_token": token})
    assert (done.status_code, done.headers["location"]) == (303, "/rollouts/1")
    view = plane.bearing(plane.key(Role.VIEWER)).get(f"{_PATH}/1").json()
    assert (view["rollout"]["state"], view["moves"][-1]["actor"]) == ("aborted", "bo")
