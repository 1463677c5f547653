"""From an operator's call to what a gateway enforces, and on when the control plane has gone."""

from pathlib import Path

import httpx
import pytest

from tests.controlplane.config_documents import SERVICE
from tests.controlplane.control_plane_server import serve_control_plane
from tests.dataplane.gateway.running_gateway import RunningGateway, running_gateway, until

pytestmark = pytest.mark.anyio


async def test_a_gateway_follows_an_override_and_ends_it_alone_at_its_time(tmp_path: Path) -> None:
    state_dir = tmp_path / "gateway"
    with serve_control_plane(tmp_path / "plane") as (url, _):
        async with (
            httpx.AsyncClient(base_url=url, timeout=30) as plane,
            running_gateway(state_dir, None, control_plane=url) as gateway,
        ):
            files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(SERVICE)]
            applied = await plane.post(
                "/api/v1/apply", json={"files": files, "author": "ann", "reason": ""}
            )
            assert applied.status_code == 200, applied.text
            wanted = {"kind": "bypass", "deployment": "chat", "lasts": "20s", "reason": "launch"}
            made = (await plane.post("/api/v1/overrides", json=wanted)).json()["override_id"]
            await until(lambda: enforced(gateway) == [made], 15)
            (seen,) = (await plane.get("/api/v1/overrides")).json()["overrides"]
            assert (seen["override_id"], seen["is_in_force"]) == (made, True)
    nobody = "http://127.0.0.1:1"
    async with running_gateway(state_dir, None, control_plane=nobody) as gateway:
        assert enforced(gateway) == [made], "it holds while the control plane is away"
        await until(lambda: enforced(gateway) == [], 25)


def enforced(gateway: RunningGateway) -> list[str]:
    return [each.override_id for each in gateway.app.report().overrides or ()]
