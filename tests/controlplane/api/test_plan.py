"""A plan says what applying would do, of what is stored, what runs and what was recorded."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.api import planning
from controlplane.operator.desired import desired_replicas, spec_digest
from controlplane.rollouts.machine import RolloutState
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.deployments import find_deployment
from controlplane.store.overrides import NewOverride, add_override
from controlplane.store.replicas import ReplicaState, add_replica, move_replica, set_addresses
from controlplane.store.revisions import apply_documents
from controlplane.store.rollouts import find_last, move_rollout
from dataplane.clock import wall_clock
from dataplane.engine import EngineStats
from dataplane.policy import OverrideKind
from dataplane.report import ReplicaReport
from tests.controlplane.api.recorded_requests import record_requests
from tests.controlplane.config_documents import (
    DEPLOYMENT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
    SERVICE,
    documents,
)
from tests.controlplane.config_server import ConfigServer, serve_config
from tests.controlplane.quiet_gateway import quiet_report
from tests.databases import Databases

OTHER_MODEL = MODEL.replace("smollm2.gguf", "other.gguf")
STEPS = "rollout: {steps: [{share: 5%, for: 1m}, {share: 50%, for: 2m, pause: true}]}"
IN_STEPS = DEPLOYMENT.replace("replicas: 2", f"replicas: 2, {STEPS}")
GOLD = "kind: Tenant\nmetadata: {name: acme}\nspec: {tier: gold}\n"


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.CONFIG)
    yield made
    made.close()


@pytest.fixture
def server(databases: Databases, tmp_path: Path) -> Iterator[ConfigServer]:
    (tmp_path / "weights.gguf").touch()
    with serve_config(tmp_path, databases.open(DatabaseKind.CONFIG)) as server:
        yield server


def files(*texts: str) -> list[dict[str, str]]:
    return [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(texts)]


def apply(server: ConfigServer, *texts: str, **more: Any) -> Any:
    response = server.http.post("/api/v1/apply", json={"files": files(*texts), **more})
    assert response.status_code == 200, response.text
    return response.json()


def plan(server: ConfigServer, *texts: str) -> Any:
    response = server.http.post("/api/v1/plan", json={"files": files(*texts)})
    assert response.status_code == 200, response.text
    return response.json()["plan"]


def start_replicas(database: Database, number: int, seconds: float | None) -> None:
    """Ready ones, of what is desired of chat now."""
    with database.session() as session:
        chat = find_deployment(session, "chat")
        assert chat is not None
        template = desired_replicas(chat).template
        for index in range(number):
            spec = replace(template, replica_id=f"chat-{index}")
            add_replica(
                session,
                spec,
                spec_digest=spec_digest(spec),
                launcher="local",
                reason="",
                now_unix_ns=1,
            )
            stages = {} if seconds is None else {"load": seconds - 1, "warm_up": 1.0}
            set_addresses(
                session, spec.replica_id, address="127.0.0.1:1", metrics_address=None,
                start_stages=stages,
            )  # fmt: skip
            move_replica(session, spec.replica_id, ReplicaState.READY, reason="", now_unix_ns=2)


def endpoint(name: str = "a") -> str:
    """A model that needs no file: what it would start can be reckoned anywhere."""
    url = f"http://127.0.0.1:9/{name}"
    return f"kind: Model\nmetadata: {{name: smollm2}}\nspec: {{artifact: {{url: '{url}'}}}}\n"


def test_what_is_stored_as_the_files_say_needs_nothing(server: ConfigServer) -> None:
    apply(server, *SERVICE)

    found = plan(server, *SERVICE)

    assert {each["action"] for each in found["documents"]} == {"nothing"}
    assert found["deployments"] == []
    assert [each["kind"] for each in found["drift"]] == ["unsettled"]


def test_a_plan_changes_nothing(server: ConfigServer) -> None:
    apply(server, *SERVICE)
    before = server.http.get("/api/v1/config").json()

    plan(server, OTHER_MODEL, IN_STEPS)

    assert server.http.get("/api/v1/config").json() == before
    assert len(server.announcements) == 1


def test_documents_are_compared_field_by_field(server: ConfigServer) -> None:
    apply(server, *SERVICE)

    [document] = plan(server, DESIGN_POLICY.replace("64", "65"))["documents"]

    assert (document["before"], document["after"]) == ("chat@1", "chat@2")
    assert document["fields"] == [
        {
            "path": "classes[interactive].max_queue",
            "kind": "changed",
            "before": "64",
            "after": "65",
        }
    ]


def test_without_steps_a_deployment_moves_at_once(server: ConfigServer) -> None:
    apply(server, *SERVICE)

    [chat] = plan(server, OTHER_MODEL)["deployments"]

    assert chat["moves"] == [
        {"field": "model", "before": "smollm2@1", "after": "smollm2@2", "way": "at_once"}
    ]
    assert chat["steps"] == []


def test_with_steps_a_rollout_begins(server: ConfigServer) -> None:
    apply(server, *SERVICE[:-1], IN_STEPS)

    [chat] = plan(server, OTHER_MODEL)["deployments"]

    assert [each["way"] for each in chat["moves"]] == ["rollout"]
    assert chat["steps"] == [
        {"share": 0.05, "seconds": 60.0, "waits_for_person": False, "is_shadow": False},
        {"share": 0.5, "seconds": 120.0, "waits_for_person": True, "is_shadow": False},
    ]


def test_a_rollout_that_would_end_is_named(server: ConfigServer) -> None:
    apply(server, *SERVICE[:-1], IN_STEPS)
    apply(server, OTHER_MODEL)

    [chat] = plan(server, MODEL.replace("smollm2.gguf", "third.gguf"))["deployments"]

    assert chat["ends_rollout"]["state"] == "aborted"
    assert [(each["before"], each["after"]) for each in chat["moves"]] == [
        ("smollm2@1", "smollm2@3")
    ]


def test_a_new_deployment_is_told_whole(server: ConfigServer) -> None:
    [chat] = plan(server, *SERVICE)["deployments"]

    assert chat["is_new"]
    assert [each["after"] for each in chat["moves"]] == [
        "chat@1", "smollm2@1", "attached@1", "chat@1", "chat@1",
    ]  # fmt: skip


def test_replicas_are_replaced_one_after_the_other_for_as_long_as_starts_take(
    server: ConfigServer, database: Database
) -> None:
    apply(server, endpoint(), *SERVICE[1:])
    start_replicas(database, 2, seconds=10.0)

    [chat] = plan(server, endpoint("b"))["deployments"]

    replicas = chat["replicas"]
    assert replicas["digest_before"] != replicas["digest_after"]
    assert replicas["turnover"]["num_starts"] == 2
    assert replicas["turnover"]["at_a_time"] == 1
    assert replicas["turnover"]["least_ready"] == 1
    assert replicas["seconds_short"] == 20.0
    assert replicas["start_times"]["num_starts"] == 2


def test_how_long_is_unknown_where_no_start_was_measured(
    server: ConfigServer, database: Database
) -> None:
    apply(server, endpoint(), *SERVICE[1:])
    start_replicas(database, 2, seconds=None)

    [chat] = plan(server, endpoint("b"))["deployments"]

    assert chat["replicas"]["start_times"] is None
    assert chat["replicas"]["seconds_short"] is None


def test_a_policy_restarts_nothing(server: ConfigServer, database: Database) -> None:
    apply(server, endpoint(), *SERVICE[1:])
    start_replicas(database, 2, seconds=10.0)

    [chat] = plan(server, DESIGN_POLICY.replace("64", "65"))["deployments"]

    assert chat["replicas"]["turnover"]["num_starts"] == 0
    assert chat["replicas"]["seconds_short"] == 0.0


def test_a_candidate_gets_replicas_of_its_own(server: ConfigServer, database: Database) -> None:
    apply(server, endpoint(), *SERVICE[1:-1], IN_STEPS)
    start_replicas(database, 2, seconds=10.0)

    [chat] = plan(server, endpoint("b"))["deployments"]

    replicas = chat["replicas"]
    assert replicas["digest_candidate"] not in (None, replicas["digest_after"])
    assert replicas["digest_after"] == replicas["digest_before"]
    assert replicas["turnover"]["num_starts"] == 1


def test_memory_is_reckoned_from_what_replicas_report(
    server: ConfigServer, database: Database, tmp_path: Path
) -> None:
    model = MODEL.replace("/models/smollm2.gguf", str(tmp_path / "weights.gguf"))
    engine = ENGINE.replace("openai, settings: {model: smollm2}", "paged, settings: {}")
    with database.session() as session:  # the test's machine needs no engine to be checked by
        apply_documents(session, documents(model, engine, *SERVICE[2:]), author="ann", reason="")
    start_replicas(database, 1, seconds=10.0)
    stats = EngineStats(
        age_seconds=0.0,
        num_blocks=4,
        block_size=16,
        ledger={"weights": 1000, "kv": 6400},
    )
    report = ReplicaReport(replica_id="chat-0", is_connected=True, num_outstanding=0, stats=stats)
    server.observed.put_gateway(replace(quiet_report("gateway-0"), replicas=(report,)))

    [chat] = plan(server, engine.replace("{}}", "{kv_memory: 1MiB}}"))["deployments"]

    [fit] = chat["replicas"]["fits"]
    assert (fit["replica_id"], fit["fits"]) == ("chat-0", False)


def test_the_last_hours_requests_are_admitted_by_the_new_policy(
    server: ConfigServer, database: Database
) -> None:
    apply(server, *SERVICE, GOLD)
    now = wall_clock()
    record_requests(
        server.request_db,
        {"arrived_at_unix_ns": now - 10**9, "tenant": "acme", "request_class": "interactive"},
        {"arrived_at_unix_ns": now - 2 * 10**9},
        {"arrived_at_unix_ns": now - 2 * 3600 * 10**9},
    )

    [chat] = plan(server, DESIGN_POLICY.replace('"gold"', '"silver"'))["deployments"]

    traffic = chat["traffic"]
    assert traffic["num_recorded"] == 2
    assert traffic["class_moves"] == [
        {"tenant": "acme", "before": "interactive", "after": "batch", "num_requests": 1}
    ]
    assert [(each["request_class"], each["verdict"]) for each in traffic["rules"]] == [
        ("interactive", "never")
    ]


def test_where_there_are_too_many_the_newest_are_replayed(
    server: ConfigServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "MAX_REPLAYED", 2)
    apply(server, *SERVICE)
    now = wall_clock()
    record_requests(
        server.request_db,
        *({"arrived_at_unix_ns": now - age * 10**9, "tenant": f"t{age}"} for age in (1, 2, 3)),
    )

    [chat] = plan(
        server,
        DESIGN_POLICY.replace("name: batch", "name: rest").replace("shed: [batch]", "shed: [rest]"),
    )["deployments"]

    assert (chat["traffic"]["num_recorded"], chat["traffic"]["num_replayed"]) == (3, 2)
    assert {each["tenant"] for each in chat["traffic"]["class_moves"]} == {"t1", "t2"}


def test_another_tier_of_a_tenant_moves_its_requests(
    server: ConfigServer, database: Database
) -> None:
    apply(server, *SERVICE, GOLD)
    record_requests(
        server.request_db,
        {
            "arrived_at_unix_ns": wall_clock() - 10**9,
            "tenant": "acme",
            "request_class": "interactive",
        },
    )

    [chat] = plan(server, GOLD.replace("gold", "free"))["deployments"]

    assert chat["moves"] == []
    assert [each["after"] for each in chat["traffic"]["class_moves"]] == ["batch"]


def drift(server: ConfigServer, *texts: str) -> list[tuple[str, str]]:
    found = plan(server, *texts)["drift"]
    return [(each["kind"], each["subject"]) for each in found if each["kind"] != "unsettled"]


def test_what_no_file_holds_is_drift(server: ConfigServer) -> None:
    apply(server, *SERVICE)

    assert drift(server, *SERVICE[1:]) == [("not_in_files", "Model/smollm2")]


def test_an_older_revision_that_is_named_is_drift(server: ConfigServer) -> None:
    pinned = DEPLOYMENT.replace("model: smollm2", "model: smollm2@1")
    apply(server, *SERVICE)
    apply(server, pinned)
    apply(server, OTHER_MODEL)

    assert drift(server, OTHER_MODEL, *SERVICE[1:-1], pinned) == [("pinned", "Deployment/chat")]


def test_a_rollout_is_under_way_and_then_held_back(
    server: ConfigServer, database: Database
) -> None:
    texts = (OTHER_MODEL, *SERVICE[1:-1], IN_STEPS)
    apply(server, *SERVICE[:-1], IN_STEPS)
    apply(server, OTHER_MODEL)
    assert drift(server, *texts) == [("under_way", "Deployment/chat")]

    with database.session() as session:
        rollout = find_last(session, "chat")
        assert rollout is not None
        over = replace(rollout.progress, state=RolloutState.ABORTED, reason="worse ttft")
        move_rollout(session, rollout, over, now_unix_ns=wall_clock())

    [told] = [e for e in plan(server, *texts)["drift"] if e["kind"] == "held_back"]
    assert "worse ttft" in told["says"]
    assert "smollm2@2" in told["says"]


def test_an_override_that_pins_a_policy_is_drift(server: ConfigServer, database: Database) -> None:
    apply(server, *SERVICE)
    with database.session() as session:
        wanted = NewOverride(
            kind=OverrideKind.PIN_POLICY,
            deployment="chat",
            reason="so",
            seconds=60,
            policy="chat@1",
        )
        add_override(session, wanted, actor="ann")

    assert drift(server, *SERVICE) == [("overridden", "Deployment/chat")]


def test_mistakes_are_refused_as_apply_refuses_them(server: ConfigServer) -> None:
    body = {"files": files(MODEL.replace("path", "pth"), DEPLOYMENT)}

    planned, applied = (
        server.http.post(f"/api/v1/{each}", json=body) for each in ("plan", "apply")
    )

    assert planned.status_code == 422
    assert planned.json() == applied.json()


def planned(found: Any) -> dict[str, Any]:
    return {
        "world": found["world"],
        "results": {
            f"{each['kind']}/{each['name']}": f"{each['after'].rpartition('@')[2]} {each['digest']}"
            for each in found["documents"]
        },
    }


def test_a_plan_is_applied_exactly_once(server: ConfigServer) -> None:
    apply(server, *SERVICE)
    kept = planned(plan(server, OTHER_MODEL))

    [applied] = apply(server, OTHER_MODEL, plan=kept)["applied"]
    assert applied["revision"] == "smollm2@2"

    again = server.http.post("/api/v1/apply", json={"files": files(OTHER_MODEL), "plan": kept})
    assert again.status_code == 409
    assert "Model/smollm2 is at 2" in again.json()["detail"]
    assert "the generation of Deployment/chat is at 2, and was at 1" in again.json()["detail"]


def test_a_plan_is_refused_once_the_world_has_moved(server: ConfigServer) -> None:
    apply(server, *SERVICE)
    kept = planned(plan(server, OTHER_MODEL))
    apply(server, GOLD)

    refused = server.http.post("/api/v1/apply", json={"files": files(OTHER_MODEL), "plan": kept})

    assert refused.status_code == 409
    assert "Tenant/acme is new" in refused.json()["detail"]
    [model] = server.http.get("/api/v1/config/model").json()
    assert model["number"] == 1


def test_other_files_than_were_planned_are_refused(server: ConfigServer) -> None:
    apply(server, *SERVICE)
    kept = planned(plan(server, OTHER_MODEL))
    other = MODEL.replace("smollm2.gguf", "third.gguf")

    refused = server.http.post("/api/v1/apply", json={"files": files(other), "plan": kept})

    assert refused.status_code == 409
    assert "Model/smollm2" in refused.json()["detail"]
    [model] = server.http.get("/api/v1/config/model").json()
    assert model["number"] == 1


def test_standing_says_how_far_a_deployment_has_come(server: ConfigServer) -> None:
    apply(server, *SERVICE[:-1], IN_STEPS)
    apply(server, OTHER_MODEL)

    [chat] = server.http.get("/api/v1/plan/standing").json()

    assert (chat["generation"], chat["observed_generation"], chat["is_settled"]) == (1, 0, False)
    assert (chat["rollout"]["state"], chat["rollout"]["num_steps"]) == ("waiting", 2)
    assert server.http.get("/api/v1/plan/standing?deployment=other").json() == []
