"""A deployment that is only observed: callers are told where they are, and nothing is sent."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dataplane.policy import Snapshot
from tests.dataplane.gateway.running_gateway import CHAT, deployment, running_gateway, snapshot

pytestmark = pytest.mark.anyio


def observed(name: str, model_name: str) -> Snapshot:
    return snapshot(replace(deployment(name=name, model_name=model_name), is_observed_only=True))


async def test_callers_of_a_deployment_that_is_only_observed_are_told_so(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, observed("beside", "theirs")) as gateway:
        for name in ("beside", "theirs"):
            body = {"model": name, "messages": [{"role": "user", "content": "hello"}]}
            answer = await gateway.http.post(CHAT, json=body)
            assert answer.status_code == httpx.codes.NOT_FOUND
            error = answer.json()["error"]
            assert error["code"] == "observed_only"
            assert "no request for it passes through this gateway" in error["message"]
        assert (await gateway.http.get("/v1/models")).json()["data"] == []
        assert (await gateway.http.get("/v1/models/theirs")).status_code == httpx.codes.NOT_FOUND


def test_a_deployment_that_serves_a_model_goes_before_one_that_is_only_observed() -> None:
    (beside,) = observed("beside", "both").deployments
    served = deployment(name="here", model_name="both")
    found = snapshot(beside, served).find_deployment("both")
    assert found is served
    assert snapshot(beside, served).find_deployment("beside") is beside
