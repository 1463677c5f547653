"""A gateway that was told of nothing yet refuses nobody for good, and keeps nothing of them."""

import itertools
from pathlib import Path

import pytest

from dataplane.access import create_key
from dataplane.gateway.control_link import next_backoff
from dataplane.gateway.status import DEPLOYMENTS_PATH, PROBE_HEADER
from dataplane.policy import encode_snapshot
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    COMPLETIONS,
    add_replica,
    deployment,
    running_gateway,
    say,
    snapshot,
    until,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


@pytest.mark.parametrize("auth", ["off", "required"])
@pytest.mark.parametrize("bearer", [None, create_key().text], ids=["nobody", "a key"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", CHAT),
        ("POST", COMPLETIONS),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/chat"),
        ("GET", DEPLOYMENTS_PATH),
    ],
)
async def test_whoever_asks_is_told_to_come_again_and_leaves_no_record(
    tmp_path: Path, auth: str, bearer: str | None, method: str, path: str
) -> None:
    async with running_gateway(tmp_path / "state", None, auth=auth) as gateway:
        headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
        answer = await gateway.http.request(method, path, json=say(), headers=headers)

        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "no_snapshot"
        assert int(answer.headers["retry-after"]) > 0
        await gateway.settle()
        report = gateway.app.report()
        assert (report.counts.arrived, report.num_records_spooled) == (0, 0)
        assert report.num_unauthenticated_by_code == {}


@pytest.mark.parametrize("path", ["/metrics", "/internal/requests"])
async def test_a_key_that_it_cannot_know_yet_is_not_called_wrong(tmp_path: Path, path: str) -> None:
    headers = {"authorization": f"Bearer {create_key().text}"}
    async with running_gateway(tmp_path / "state", None, auth="required") as gateway:
        answer = await gateway.http.get(path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_snapshot")


async def test_its_health_says_what_it_waits_for(tmp_path: Path) -> None:
    async with running_gateway(tmp_path / "state", None) as gateway:
        assert (await gateway.http.get("/healthz")).json()["waits_for"] == "no_snapshot"
        gateway.app.gateway.enforce(encode_snapshot(snapshot()))
        assert (await gateway.http.get("/healthz")).json()["waits_for"] is None


async def test_with_a_snapshot_what_is_not_in_it_does_not_exist(tmp_path: Path) -> None:
    async with running_gateway(tmp_path / "state", None) as gateway:
        gateway.app.gateway.enforce(encode_snapshot(snapshot()))
        answer = await gateway.http.post(CHAT, json=say())
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert (await gateway.record_of(answer.headers["x-request-id"])).status_code == 404


async def test_who_started_it_sees_which_deployments_have_a_replica(tmp_path: Path) -> None:
    add_replica("a")
    enforced = snapshot(deployment("a"), deployment(name="bare", model_name="other"))
    async with running_gateway(tmp_path / "state", enforced, auth="required") as gateway:
        probe = {PROBE_HEADER: gateway.app.gateway.probe_key}
        await until(lambda: bool(gateway.app.gateway.fleet.connected()))
        answer = await gateway.http.get(DEPLOYMENTS_PATH, headers=probe)
        assert answer.json() == {
            "snapshot_version": 5,
            "deployments": [
                {"name": "chat", "num_connected": 1},
                {"name": "bare", "num_connected": 0},
            ],
        }
        assert (await gateway.http.get(DEPLOYMENTS_PATH)).status_code == 401


def _pauses(has_snapshot: bool) -> list[float]:
    return list(
        itertools.accumulate(
            range(20), lambda last, _: next_backoff(last, has_snapshot), initial=0.2
        )
    )


def test_the_control_plane_is_asked_often_while_there_is_no_snapshot() -> None:
    assert max(_pauses(has_snapshot=False)) <= 0.5
    assert max(_pauses(has_snapshot=True)) == 5.0
    assert _pauses(has_snapshot=True) == sorted(_pauses(has_snapshot=True))
