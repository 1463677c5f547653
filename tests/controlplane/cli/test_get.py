"""`get`, `describe` and `diff` of what runs and of what changed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy.orm import Session

from controlplane.cli import main
from controlplane.operator.observed import ObservedReplica
from controlplane.process_history import ProcessEvent
from controlplane.store.replicas import ReplicaState, add_replica, move_replica
from dataplane.clock import wall_clock
from dataplane.engine import ReplicaSpec
from dataplane.lifecycle import RequestCounts
from dataplane.report import GatewayReport, ReplicaReport
from ops.seeded_state import strays
from tests.controlplane.config_documents import DESIGN_POLICY, MODEL, SERVICE
from tests.controlplane.control_plane_server import serve_control_plane


def replica(replica_id: str, state: str = "ready") -> ObservedReplica:
    return ObservedReplica(
        replica_id=replica_id, deployment="chat", engine="openai", model_revision="smollm2@1",
        state=state, reason="", stage="serving", pid=4242, address="127.0.0.1:9001",
        metrics_address="127.0.0.1:9002", start_stages={"load": 1.25}, probed_at_unix_ns=None,
        observed_at_unix_ns=wall_clock(),
    )  # fmt: skip


def gateway(name: str) -> GatewayReport:
    return GatewayReport(
        gateway_id=f"{name}-1", name=name, address="http://127.0.0.1:1", started_at_unix_ns=0,
        reported_at_unix_ns=wall_clock(), snapshot_version=3, snapshot_error="no class for batch",
        counts=RequestCounts(
            arrived=10, invalid=1, undecided=2, rejected=3, admitted=4, active=1, finished=3
        ),
        num_queued=2, oldest_queued_seconds=1.5, num_records_spooled=8, num_records_lost=9,
        replicas=(ReplicaReport(replica_id="chat-7f", is_connected=False, num_outstanding=1,
                                error="refused"),),
    )  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A control plane with two revisions of a policy, two replicas of a deployment, a gateway."""
    folder: Path = tmp_path_factory.mktemp("get")
    with serve_control_plane(folder) as (url, opened):
        for texts, author in ((SERVICE, "ann"), ([_changed(DESIGN_POLICY)], "bob")):
            result = CliRunner().invoke(
                main,
                ["apply", "-f", "-", "--author", author, "--reason", f"as {author} said"],
                input="---\n".join(texts),
                env={"PILOTHOUSE_URL": url},
            )
            assert result.exit_code == 0, result.output
        opened.operator.stop()
        opened.observed.set_replicas([replica("chat-7f"), replica("chat-8a", "starting")])
        opened.observed.set_strays(strays(wall_clock()))
        opened.observed.put_gateway(gateway("gateway-0"))
        opened.observed.note_refused("gateway-9", "its key was revoked")
        opened.process_history.note(_GATEWAY_FAILED)
        with opened.config_db.session() as session:
            _record_ended(session)
        yield url


_GATEWAY_FAILED = ProcessEvent(
    at_unix_ns=wall_clock() - 3600 * 10**9, name="gateway-0", role="gateway", what="failed",
    reason="it was ended by SIGKILL",
)  # fmt: skip


def _changed(policy: str) -> str:
    return policy.replace("max_queue: 64", "max_queue: 96").replace("deadline: 10s", "deadline: 5s")


def _record_ended(session: Session) -> None:
    spec = ReplicaSpec(
        replica_id="chat-dead", deployment="chat", engine="openai", model_revision="smollm2@1",
        engine_config_revision="attached@1", artifact="/x", model_name="chat",
    )  # fmt: skip
    now = wall_clock()
    add_replica(session, spec, spec_digest="d", launcher="local", reason="wanted", now_unix_ns=now)
    move_replica(session, "chat-dead", ReplicaState.FAILED, reason="out of memory", now_unix_ns=now)


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"PILOTHOUSE_URL": url})


def lines(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()]


def test_replicas_are_listed_and_wide_says_where_they_are(url: str) -> None:
    head, first, second, *below = lines(run(url, "get", "replicas"))

    assert head == [
        "REPLICA", "DEPLOYMENT", "STATE", "STAGE", "SEEN", "MODEL", "ENGINE", "REASON"
    ]  # fmt: skip
    assert first[:3] == ["chat-7f", "chat", "ready"]
    assert second[:3] == ["chat-8a", "chat", "starting"]
    found = {words[0]: words for words in below if words}
    assert found["zombie"][1:4] == ["4811", "summarize-1", "9"]
    assert "permitted" in found["zombie"]
    assert found["orphan"][1:4] == ["4790", "chat-1", "9"]
    wide = run(url, "get", "replica", "-o", "wide").stdout
    assert "http://127.0.0.1:9002/metrics" in wide
    assert "4242" in wide


def test_names_keep_those_that_match(url: str) -> None:
    assert [line[0] for line in lines(run(url, "get", "replicas", "*-8*"))] == [
        "REPLICA",
        "chat-8a",
    ]
    assert [line[1] for line in lines(run(url, "get", "models", "smol*"))] == ["NAME", "smollm2"]
    assert "no document is called z*" in run(url, "get", "models", "z*").stdout
    both = json.loads(run(url, "get", "policy", "chat@1", "chat@2", "-o", "json").stdout)
    assert [each["number"] for each in both] == [1, 2]


def test_gateways_are_listed_with_what_they_last_said(url: str) -> None:
    head, first, _ = lines(run(url, "get", "gateways", "-o", "wide"))

    assert first[0] == "gateway-0"
    assert {"CONFIG", "ACTIVE", "QUEUED", "SPOOLED", "LOST"} <= set(head)
    shown = run(url, "describe", "gateway", "gateway-0").stdout
    assert "Refused:   no class for batch\n" in shown
    assert "10 arrived: 1 invalid, 2 undecided, 3 rejected, 4 admitted (1 active" in shown
    assert "chat-7f  no         1            refused" in shown


def test_json_is_what_the_api_answers_of_those_that_match(url: str) -> None:
    [found] = json.loads(run(url, "get", "gateways", "gateway-0", "-o", "json").stdout)
    assert (found["name"], found["counts"]["arrived"]) == ("gateway-0", 10)
    [found] = json.loads(run(url, "get", "replicas", "chat-7f", "-o", "json").stdout)
    assert found["start_stages"] == {"load": 1.25}


def test_revisions_of_a_document_are_listed_the_newest_first(url: str) -> None:
    head, second, first = lines(run(url, "get", "revisions", "policy", "chat"))

    assert head[0] == "REVISION"
    assert (second[0], first[0]) == ("chat@2", "chat@1")
    assert "as bob said" in run(url, "get", "revisions", "policy", "chat").stdout


def test_a_gateway_that_is_refused_is_named_with_the_reason(url: str) -> None:
    shown = run(url, "get", "gateways").stdout
    assert "gateway-9 calls and is refused: its key was revoked" in shown
    assert "gateway-9" not in run(url, "get", "gateways", "gateway-0").stdout


def test_events_tell_of_gateways_that_failed(url: str) -> None:
    shown = run(url, "get", "events", "gateway-0").stdout.splitlines()
    assert len(shown) == 2
    for word in ("gateway gateway-0", "failed", "it was ended by SIGKILL"):
        assert word in shown[1]
    [event] = json.loads(run(url, "get", "events", "gateway-0", "-o", "json").stdout)
    assert (event["deployment"], event["process"]) == (None, "gateway-0")


def test_events_tell_what_happened_to_replicas_and_what_was_wanted(url: str) -> None:
    shown = run(url, "get", "events").stdout

    assert "replica chat-dead" in shown
    assert "out of memory" in shown
    assert "wants smollm2@1 on attached@1, policy chat@2" in shown
    assert "bob" in shown
    found = json.loads(run(url, "get", "events", "chat", "-o", "json", "--limit", "2").stdout)
    assert len(found) == 2
    assert found[0]["at_unix_ns"] >= found[1]["at_unix_ns"]
    assert run(url, "get", "events", "nobody").stdout == "nothing has happened yet\n"


def test_describe_of_a_document_says_what_it_changed_of_the_one_before(url: str) -> None:
    shown = run(url, "describe", "policy", "chat").stdout

    assert shown.endswith(
        "From chat@1 to chat@2:\n"
        "  classes[interactive].max_queue: 64 -> 96\n"
        "  classes[interactive].deadline: 10s -> 5s\n"
    )
    assert "From" not in run(url, "describe", "policy", "chat@1").stdout


def test_programs_are_told_the_same_as_json(url: str) -> None:
    def told(*arguments: str) -> Any:
        result = run(url, *arguments, "-o", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    document = told("describe", "policy", "chat")
    assert document["revision"]["revision"] == "chat@2"
    assert [each["number"] for each in document["revisions"]] == [2, 1]
    paths = ["classes[interactive].max_queue", "classes[interactive].deadline"]
    assert [each["path"] for each in document["differences"]] == paths
    assert told("diff", "policy", "chat", "1", "2") == document["differences"]
    deployment = told("describe", "deployment", "chat")
    assert {each["deployment"] for each in deployment["replicas"]} == {"chat"}
    assert {"hold", "changes"} <= deployment.keys()
    assert told("describe", "replica", "chat-7")["replica"]["pid"] == 4242
    assert told("describe", "replica", "chat-dead")["replica"] is None
    assert told("describe", "gateway", "gateway-0")[0]["name"] == "gateway-0"
    assert told("explain", "policy.classes.max_queue")["path"] == "classes[].max_queue"
    assert any(each["sort"] == "metric" for each in told("explain", "metrics"))
    assert told("explain", "policy")["fields"]


def test_diff_compares_any_two_revisions(url: str) -> None:
    forward = run(url, "diff", "policy", "chat", "1", "2").stdout
    back = run(url, "diff", "policy", "chat", "2", "1").stdout

    assert forward == run(url, "diff", "policy", "chat", "1").stdout
    assert "max_queue: 64 -> 96" in forward
    assert "max_queue: 96 -> 64" in back
    assert "the same" in run(url, "diff", "policy", "chat", "2", "2").stdout
    assert run(url, "diff", "policy", "chat", "1", "9").exit_code == 4
    assert run(url, "diff", "policy", "chat@1", "2").exit_code == 2


def test_a_replica_is_described_by_the_beginning_of_its_id(url: str) -> None:
    shown = run(url, "describe", "replica", "chat-7").stdout

    assert "Replica:     chat-7f\n" in shown
    assert "Process:     pid 4242\n" in shown
    assert "load  1.25 s" in shown


def test_a_replica_that_has_ended_still_has_its_history(url: str) -> None:
    shown = run(url, "describe", "replica", "chat-dead").stdout

    assert shown.startswith("Replica chat-dead has ended\n")
    assert "failed    out of memory" in shown


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["describe", "replica", "chat-"], 1, "begins several: chat-7f, chat-8a, chat-dead"),
        (["describe", "replica", "z"], 4, "There are chat-7f, chat-8a, chat-dead"),
        (["describe", "gateway", "z"], 4, "There are gateway-0"),
        (["describe", "events", "z"], 2, "pilothouse get events"),
        (["get", "requests"], 2, "`pilothouse requests`"),
        (["get", "replcas"], 2, "did you mean replicas?"),
        (["get", "revisions", "policy"], 2, "takes a kind and a name"),
        (["get", "revisions", "replicas", "x"], 2, "only documents have revisions"),
        (["get", "replicas", "-o", "yaml"], 2, "only documents are written as yaml"),
        (["get", "model", "UPPER"], 2, "'UPPER' is not a name"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_shown_says_why(
    url: str, arguments: list[str], exit_code: int, said: str
) -> None:
    result = run(url, *arguments)

    assert result.exit_code == exit_code
    assert said in result.stderr


def test_a_document_is_found_by_the_word_that_a_deployment_has_for_it(url: str) -> None:
    for word, kind in (("policy", "AdmissionPolicy"), ("contracts", "SLOContract")):
        assert kind in run(url, "get", word).stdout
    assert MODEL.split()[1] in run(url, "get", "models").stdout
