"""With authentication on, a gateway serves who has a key, as the tenant whose key it is."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dataplane.access import AccessKey, NewKey, Role, create_key
from dataplane.gateway.status import PROBE_HEADER
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    COMPLETIONS,
    RunningGateway,
    add_replica,
    deployment,
    running_gateway,
    say,
    snapshot,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


def known(
    key: NewKey, role: Role, tenant: str | None = None, expires: int | None = None
) -> AccessKey:
    return AccessKey(
        key_id=key.key_id,
        secret_digest=key.secret_digest,
        role=role,
        tenant=tenant,
        expires_at_unix_ns=expires,
    )


def bearing(key: NewKey | str) -> dict[str, str]:
    return {"authorization": f"Bearer {key if isinstance(key, str) else key.text}"}


def guarded(tmp_path: Path, *keys: AccessKey) -> AbstractAsyncContextManager[RunningGateway]:
    add_replica("a")
    enforced = replace(snapshot(deployment("a")), keys=keys)
    return running_gateway(tmp_path / "state", enforced, auth="required")


async def ask(gateway: RunningGateway, **headers: str) -> httpx.Response:
    return await gateway.http.post(CHAT, json=say(), headers=headers)


async def test_a_request_belongs_to_the_tenant_of_its_key(tmp_path: Path) -> None:
    key = create_key()
    async with guarded(tmp_path, known(key, Role.CLIENT, "acme")) as gateway:
        answer = await ask(gateway, **bearing(key))

        assert answer.status_code == 200, answer.text
        record = await gateway.record_of(answer.headers["x-request-id"])
        assert record.tenant == "acme"


async def test_who_has_no_key_or_a_wrong_one_is_told_which(tmp_path: Path) -> None:
    key, old = create_key(), create_key()
    async with guarded(
        tmp_path, known(key, Role.CLIENT, "acme"), known(old, Role.CLIENT, "acme", expires=1)
    ) as gateway:
        for headers, code in (
            ({}, "missing_api_key"),
            ({"x-pilothouse-tenant": "acme"}, "missing_api_key"),
            (bearing("none"), "invalid_api_key"),
            (bearing(create_key()), "invalid_api_key"),
            (bearing(old), "invalid_api_key"),
        ):
            answer = await ask(gateway, **headers)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == code
            assert "phk_" not in answer.text.replace("phk_<id>_<secret>", "")
        await gateway.settle()


async def test_calls_without_a_valid_key_are_counted_and_leave_no_other_trace(
    tmp_path: Path,
) -> None:
    key = create_key()
    async with guarded(tmp_path, known(key, Role.CLIENT, "acme")) as gateway:
        for headers in ({}, bearing(create_key()), bearing("none")):
            for path in (CHAT, COMPLETIONS):
                answer = await gateway.http.post(path, json=say(), headers=headers)
                assert answer.status_code == 401
        two_keys = [("authorization", f"Bearer {number}") for number in range(2)]
        assert (await gateway.http.post(CHAT, json=say(), headers=two_keys)).status_code == 400
        wrong_tenant = await ask(gateway, **bearing(key), **{"x-pilothouse-tenant": "open"})
        assert wrong_tenant.status_code == 403

        await gateway.settle()
        report = gateway.app.report()
        assert report.num_unauthenticated_by_code == {
            "missing_api_key": 2,
            "invalid_api_key": 4,
            "conflicting_headers": 1,
        }
        assert (report.counts.arrived, report.counts.invalid) == (1, 1), "whose key is known"
        assert [record.status_code for record in gateway.records] == [403]
        assert report.num_records_spooled == 1
        (journal,) = (tmp_path / "state" / "inflight").rglob("journal")
        assert journal.read_bytes().count(b'"entry"') == 1


async def test_a_probe_needs_no_key(tmp_path: Path) -> None:
    async with guarded(tmp_path) as gateway:
        answer = await ask(gateway, **{PROBE_HEADER: gateway.app.gateway.probe_key})

        assert answer.status_code == 200, answer.text
        assert (await gateway.record_of(answer.headers["x-request-id"])).tenant == "_pilothouse"


async def test_a_header_cannot_name_another_tenant_than_the_key(tmp_path: Path) -> None:
    key = create_key()
    async with guarded(tmp_path, known(key, Role.CLIENT, "acme")) as gateway:
        other = await ask(gateway, **bearing(key), **{"x-pilothouse-tenant": "open"})
        same = await ask(gateway, **bearing(key), **{"x-pilothouse-tenant": "acme"})

        assert other.status_code == 403
        assert other.json()["error"]["code"] == "wrong_tenant"
        assert "acme" not in other.text
        assert same.status_code == 200


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
async def test_a_key_of_the_control_plane_sends_no_requests(tmp_path: Path, role: Role) -> None:
    key = create_key()
    async with guarded(tmp_path, known(key, role)) as gateway:
        answer = await ask(gateway, **bearing(key))

        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "wrong_key_role"


async def test_what_a_gateway_does_for_everybody_is_told_to_viewers_alone(tmp_path: Path) -> None:
    client, viewer, bound = create_key(), create_key(), create_key()
    async with guarded(
        tmp_path,
        known(client, Role.CLIENT, "acme"),
        known(viewer, Role.VIEWER),
        known(bound, Role.VIEWER, "acme"),
    ) as gateway:
        for path in ("/metrics", "/internal/requests"):
            statuses = [
                (await gateway.http.get(path, headers=headers)).status_code
                for headers in ({}, bearing(client), bearing(bound), bearing(viewer))
            ]
            assert statuses == [401, 403, 403, 200], path
        assert (await gateway.http.get("/v1/models")).status_code == 401
        assert (await gateway.http.get("/v1/models", headers=bearing(client))).status_code == 200
        assert (await gateway.http.get("/healthz")).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/metrics", "/internal/requests"])
async def test_two_different_keys_in_one_request_are_refused(tmp_path: Path, path: str) -> None:
    viewer = create_key()
    async with guarded(tmp_path, known(viewer, Role.VIEWER)) as gateway:
        both = [*bearing("none").items(), *bearing(viewer).items()]
        answer = await gateway.http.get(path, headers=both)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "conflicting_headers"


async def test_a_key_is_in_no_record_and_no_expression(tmp_path: Path) -> None:
    key = create_key()
    async with guarded(tmp_path, known(key, Role.CLIENT, "acme")) as gateway:
        answer = await ask(gateway, **bearing(key))

        record = await gateway.record_of(answer.headers["x-request-id"])
        assert key.text not in repr(record)
        assert key.secret_digest not in repr(record)
