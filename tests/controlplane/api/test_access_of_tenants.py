"""What a tenant's key sees: its own requests, and no number that counts those of others."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.api import authorization
from controlplane.store.records import RecordBatch
from dataplane.access import Role
from ops.sample_requests import Sample, answered
from tests.controlplane.api.guarded_paths import GATEWAY_ID, apply_tenants, routes_of
from tests.controlplane.guarded_plane import GuardedPlane, guarded_plane


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        yield plane


@pytest.fixture
def admin(plane: GuardedPlane) -> Any:
    return plane.bearing(plane.key(Role.ADMIN))


def seed(plane: GuardedPlane) -> None:
    apply_tenants(plane.bearing(plane.key(Role.OPERATOR, name="seeder")))
    gateway = plane.bearing(plane.key(Role.GATEWAY, name="gateway-0"))
    records = tuple(
        replace(
            answered(Sample(sequence=n, arrived_at_unix_ns=10**18 + n, tenant=tenant)),
            gateway_id=GATEWAY_ID,
        )
        for n, tenant in enumerate(["acme", "rival", "acme", "rival"])
    )
    batch = RecordBatch(gateway_id=GATEWAY_ID, num_lost=0, records=records)
    sent = gateway.post("/api/v1/records", content=msgspec.json.encode(batch))
    assert sent.status_code == 200, sent.text


def test_a_tenants_key_sees_its_own_requests_and_cannot_guess_others(
    plane: GuardedPlane, admin: Any
) -> None:
    seed(plane)
    acme = plane.bearing(plane.key(Role.VIEWER, tenant="acme"))
    every = admin.get("/api/v1/requests").json()["requests"]
    rivals = [each for each in every if each["tenant"] == "rival"]
    assert len(every) == 4
    assert len(rivals) == 2

    mine = acme.get("/api/v1/requests").json()["requests"]
    assert {each["tenant"] for each in mine} == {"acme"}
    assert len(mine) == 2
    assert acme.get("/api/v1/requests", params={"tenant": "rival"}).json()["requests"] == []
    unknown = acme.get("/api/v1/requests/ffffffffffffffff")
    for each in rivals:
        for identifier in (each["request_id"], each["trace_id"], each["request_id"][:6]):
            answer = acme.get(f"/api/v1/requests/{identifier}")
            if answer.status_code == 200:  # a beginning that one of its own has as well
                assert answer.json()["request"]["tenant"] == "acme"
            else:
                assert answer.status_code == unknown.status_code == 404
                assert answer.json()["detail"].replace(identifier, "") == unknown.json()[
                    "detail"
                ].replace("ffffffffffffffff", "")


def test_full_records_are_for_who_may_see_all_tenants(plane: GuardedPlane) -> None:
    seed(plane)
    viewer = plane.bearing(plane.key(Role.VIEWER))
    acme = plane.bearing(plane.key(Role.VIEWER, name="of-acme", tenant="acme"))

    page = viewer.get("/api/v1/records", params={"tenant": "acme", "limit": 1}).json()
    assert [each["tenant"] for each in page["records"]] == ["acme"]
    behind = viewer.get("/api/v1/records", params={"tenant": "acme", "after": page["next"]}).json()
    assert [each["tenant"] for each in behind["records"]] == ["acme"]
    assert behind["next"] is None
    assert viewer.get("/api/v1/records", params={"colour": "red"}).status_code == 422
    refused = acme.get("/api/v1/records")
    assert refused.status_code == 403
    assert "bound to tenant acme" in refused.json()["detail"]


def test_no_number_that_a_tenant_sees_counts_the_requests_of_others(
    plane: GuardedPlane, admin: Any
) -> None:
    seed(plane)
    acme = plane.bearing(plane.key(Role.VIEWER, tenant="acme"))
    walked: list[str] = []
    after: str | None = ""
    while after is not None:
        answer = acme.get("/api/v1/requests", params={"limit": 1, "after": after})
        [each] = answer.json()["requests"]
        walked.append(each["request_id"])
        after = answer.json()["next"]
        detail = acme.get(f"/api/v1/requests/{each['request_id']}").json()
        for told in (each, detail["request"]):
            assert told["gateway_sequence"] is None
        assert "gateway_sequence" not in detail["record"]
        html = acme.get(f"/requests/{each['request_id']}", headers={"accept": "text/html"}).text
        assert not re.search(r"\brecord \d", html)
    every = admin.get("/api/v1/requests").json()["requests"]
    assert walked == [each["request_id"] for each in every if each["tenant"] == "acme"]
    for rival in (each for each in every if each["tenant"] == "rival"):
        after = f"request.{rival['request_id']}"
        assert acme.get("/api/v1/requests", params={"after": after}).status_code == 422


def test_a_tenants_key_sees_nothing_of_the_house(plane: GuardedPlane) -> None:
    seed(plane)
    acme = plane.bearing(plane.key(Role.VIEWER, tenant="acme"))
    open_to_it = {path for _, path in authorization.FOR_TENANTS | authorization.FOR_EVERYBODY}
    for method, path in routes_of(plane):
        if path in open_to_it | {"/login", "/healthz"} or "static" in path:
            continue
        answer = acme.request(method, path.replace("{", "x").replace("}", "x"))
        assert answer.status_code in (403, 422), (method, path, answer.status_code)
        assert answer.status_code == 403 or method == "POST", (method, path)
        assert "rival" not in answer.text
