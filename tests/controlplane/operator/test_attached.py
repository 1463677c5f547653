"""Servers that run already: attached or only observed, and told when nobody reaches them."""

from dataclasses import replace

import pytest

from controlplane.operator.page_look import PageLook, Silence
from controlplane.operator.restart import Restart
from controlplane.operator.settings import OperatorSettings
from dataplane.report import ReplicaReport
from tests.controlplane.operator.room import Room
from tests.controlplane.quiet_gateway import quiet_report


def test_an_attached_endpoint_is_listed_at_once_and_survives_a_restart(room: Room) -> None:
    room.apply(engine="openai", model='url: "http://127.0.0.1:9/"', settings="{model: x}")
    room.reconciler.reconcile()
    (endpoint,) = room.snapshot().deployments[0].replicas
    assert (endpoint.address, endpoint.settings) == ("http://127.0.0.1:9", {"model": "x"})
    assert room.snapshot().deployments[0].tokenizer_artifact is None
    (seen,) = room.observed.replicas()
    assert (seen.state, seen.reason, seen.pid) == ("ready", "attached, not probed", None)
    room.reconcile_until(room.is_settled)
    room.end_control_plane()
    room.begin_control_plane()
    room.reconciler.reconcile()
    assert room.endpoints() == [endpoint.replica_id]
    room.apply(replicas=0, engine="openai", model='url: "http://127.0.0.1:9/"')
    room.reconcile_until(room.is_settled)
    assert room.endpoints() == []


def test_a_server_that_runs_is_attached_also_where_its_engine_could_be_started(
    room: Room,
) -> None:
    room.apply(replicas=3, engine="vllm", model='url: "http://127.0.0.1:9"')
    room.reconcile_until(room.is_settled)
    (seen,) = room.observed.replicas()
    assert (seen.state, seen.pid, seen.address) == ("ready", None, "http://127.0.0.1:9")
    assert "once it has generated a token" in seen.reason


def test_a_server_that_is_only_observed_is_listed_as_that_and_no_gateway_is_given_it(
    room: Room,
) -> None:
    url = 'url: "http://127.0.0.1:9"'
    room.apply(engine="vllm", model=url, observe_only=True)
    room.reconcile_until(room.is_settled)
    (seen,) = room.observed.replicas()
    assert (seen.state, seen.address) == ("ready", "http://127.0.0.1:9")
    assert "no request passes through Pilothouse" in seen.reason
    (chat,) = room.snapshot().deployments
    assert (chat.is_observed_only, chat.replicas) == (True, ())

    room.apply(engine="vllm", model=url)
    room.reconcile_until(lambda: room.is_settled() and room.endpoints() != [])
    (seen,) = room.observed.replicas()
    assert "once it has generated a token" in seen.reason


def test_an_endpoint_with_a_key_is_said_to_be_watched_without_it(room: Room) -> None:
    key = "{api_key_env: ENGINE_KEY_A}"
    room.apply(engine="vllm", model='url: "http://127.0.0.1:9"', settings=key)
    room.reconcile_until(room.is_settled)
    (seen,) = room.observed.replicas()
    assert seen.reason.endswith("read without its key, which is in gateways' environment alone")


def test_what_is_to_be_observed_must_run_already(room: Room) -> None:
    room.apply(observe_only=True)
    room.reconciler.reconcile()
    assert room.reconciler.replicas == []
    assert "give its Model the server's url" in room.reconciler.holds["chat"]


def test_an_attached_endpoint_that_no_gateway_reaches_is_told_and_stays_in_the_snapshot(
    room: Room,
) -> None:
    room.begin_control_plane(OperatorSettings(unreached_seconds=0))
    room.apply(engine="openai", model='url: "http://127.0.0.1:9/"', settings="{model: x}")
    room.reconciler.reconcile()
    (endpoint,) = room.endpoints()

    def state_told_by(error: str | None) -> tuple[str, str]:
        link = ReplicaReport(
            replica_id=endpoint, is_connected=error is None, num_outstanding=0, error=error
        )
        room.observed.put_gateway(quiet_report(replicas=(link,)))
        room.reconciler.reconcile()
        (seen,) = room.observed.replicas()
        return seen.state, seen.reason

    assert state_told_by("no answer") == ("unreachable", "no gateway reaches it: no answer")
    assert room.endpoints() == [endpoint], "gateways go on trying"
    assert state_told_by(None) == ("ready", "a gateway reaches it again")
    assert [state for state, _ in room.history(endpoint)] == [
        "starting",
        "ready",
        "unreachable",
        "ready",
    ]


def test_a_server_that_is_only_observed_is_unreachable_while_its_page_is_not_answered(
    room: Room,
) -> None:
    room.apply(engine="vllm", model='url: "http://127.0.0.1:9"', observe_only=True)
    room.reconciler.reconcile()
    (seen,) = room.observed.replicas()
    replica_id = seen.replica_id

    def state_after(seconds: int, num_silent: int) -> str:
        room.observed.set_looks({replica_id: look(seconds, num_silent)})
        room.reconciler.reconcile()
        (seen,) = room.observed.replicas()
        assert seen.look == look(seconds, num_silent)
        return seen.state

    assert state_after(0, 0) == "ready"
    assert state_after(0, 1) == "ready", "it may be a moment"
    assert state_after(9, 5) == "ready"
    assert state_after(10, 2) == "unreachable"
    room.end_control_plane()
    room.begin_control_plane()
    room.reconciler.reconcile()
    (seen,) = room.observed.replicas()
    assert seen.state == "unreachable", "nobody has asked it since"
    assert state_after(0, 1) == "unreachable", "one more silence is no sign of life"
    assert state_after(20, 0) == "ready"
    told = [state for state, _ in room.history(replica_id)]
    assert told == ["starting", "ready", "unreachable", "ready"]


def look(silent_seconds: int, num_silent: int) -> PageLook:
    return PageLook(
        at_unix_ns=silent_seconds * 10**9,
        page=None,
        page_at_unix_ns=None,
        num_running=None,
        num_waiting=None,
        max_num_seqs=None,
        silence=Silence.TAKEN if num_silent else None,
        silent_since_unix_ns=0 if num_silent else None,
        num_silent=num_silent,
        why="no answer within 2 s" if num_silent else "",
    )


@pytest.mark.parametrize("observe_only", [True, False])
def test_a_server_that_was_started_anew_is_told_once_and_stays_ready(
    room: Room, observe_only: bool
) -> None:
    room.apply(engine="vllm", model='url: "http://127.0.0.1:9"', observe_only=observe_only)
    room.reconciler.reconcile()
    room.reconciler.reconcile()
    (seen,) = room.observed.replicas()
    before = room.history(seen.replica_id)
    assert before[-1][0] == "ready"
    restart = Restart(after_unix_ns=10**18, seen_at_unix_ns=10**18 + 5 * 10**9)
    room.observed.set_restarts({seen.replica_id: restart})
    for _ in range(2):
        room.reconciler.reconcile()
    told = room.history(seen.replica_id)[len(before) :]
    assert told == [("ready", restart.reason)]
    later = replace(restart, seen_at_unix_ns=10**18 + 600 * 10**9)
    room.observed.set_restarts({seen.replica_id: later})
    room.reconciler.reconcile()
    assert len(room.history(seen.replica_id)) == len(before) + 2
