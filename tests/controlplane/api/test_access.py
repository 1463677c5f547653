"""Nobody unknown gets past the door, and whoever is known no further than they may."""

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import text

from controlplane.api import authorization
from controlplane.store.access_keys import keys_in_use
from controlplane.store.records import RecordBatch
from dataplane.access import AuthMode, KeyRing, Role
from dataplane.gateway.callers import check_reader
from dataplane.gateway.openai_api.errors import ApiRefusalError
from ops.sample_requests import Sample, answered
from tests.controlplane.guarded_plane import PASSWORD, GuardedPlane, guarded_plane
from tests.controlplane.quiet_gateway import quiet_report

GATEWAY_ID = "gateway-0-9c1f9c1f9c1f"
TENANT = """
apiVersion: pilothouse/v1
kind: Tenant
metadata: {name: acme}
spec: {tier: gold}
---
apiVersion: pilothouse/v1
kind: Tenant
metadata: {name: rival}
spec: {}
"""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        yield plane


@pytest.fixture
def admin(plane: GuardedPlane) -> Any:
    return plane.bearing(plane.key(Role.ADMIN))


def apply_tenants(caller: Any, reason: str = "for the test") -> Any:
    files = [{"name": "tenants.yaml", "text": TENANT}]
    return caller.post(
        "/api/v1/apply", json={"files": files, "author": "somebody else", "reason": reason}
    )


def routes_of(plane: GuardedPlane) -> list[tuple[str, str]]:
    return sorted(
        (method, context.path)
        for context in iter_route_contexts(plane.app.routes)
        if context.path is not None
        for method in (context.methods or set()) - {"HEAD", "OPTIONS"}
    )


def test_every_path_but_the_way_in_asks_who_is_calling(plane: GuardedPlane) -> None:
    routes = routes_of(plane)
    assert len(routes) > 30
    for method, path in routes:
        if path in ("/login", "/healthz") or path.startswith("/static/"):
            continue
        answer = plane.http.request(method, path.replace("{", "x").replace("}", "x"))
        assert answer.status_code == 401, (method, path, answer.text)
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_schema_of_the_api_is_not_told_to_strangers(plane: GuardedPlane) -> None:
    assert plane.http.get("/openapi.json").status_code == 401


def test_every_rule_is_about_a_path_that_exists(plane: GuardedPlane) -> None:
    ruled = (
        authorization.FOR_GATEWAYS
        | authorization.FOR_OPERATORS
        | authorization.FOR_ADMINS
        | authorization.FOR_EVERYBODY
        | authorization.FOR_TENANTS
        | authorization.FROM_CLIENTS
    )
    assert ruled <= set(routes_of(plane))


@pytest.mark.parametrize("shown", ["none", "phk_" + "a" * 12 + "_" + "b" * 43, ""])
def test_a_wrong_key_is_refused_and_not_repeated(plane: GuardedPlane, shown: str) -> None:
    answer = plane.bearing(shown).get("/api/v1/requests")

    assert answer.status_code == 401
    assert "b" * 43 not in answer.text


def test_a_viewer_reads_and_changes_nothing(plane: GuardedPlane) -> None:
    viewer = plane.bearing(plane.key(Role.VIEWER))

    assert viewer.get("/api/v1/config").status_code == 200
    assert viewer.get("/api/v1/audit").status_code == 200
    for answer in (
        apply_tenants(viewer),
        viewer.get("/api/v1/keys"),
        viewer.post("/api/v1/keys", json={"name": "x", "role": "admin"}),
        viewer.delete("/api/v1/keys/x?reason=y"),
        viewer.post("/api/v1/records", content=b"{}"),
        viewer.put("/api/v1/gateways/g", content=b"{}"),
    ):
        assert answer.status_code == 403, answer.text
        assert "role" in answer.json()["detail"]


def test_an_operator_changes_what_runs_and_not_who_may(plane: GuardedPlane) -> None:
    operator = plane.bearing(plane.key(Role.OPERATOR))

    assert apply_tenants(operator).status_code == 200
    assert operator.get("/api/v1/keys").status_code == 403
    made = operator.post("/api/v1/keys", json={"name": "x", "role": "viewer"})
    assert made.status_code == 403


def test_a_gateway_delivers_and_reads_nothing_else(plane: GuardedPlane) -> None:
    gateway = plane.bearing(plane.key(Role.GATEWAY, name="gateway-0"))
    batch = {"gateway_id": GATEWAY_ID, "num_lost": 0, "records": []}

    assert gateway.post("/api/v1/records", json=batch).status_code == 200
    assert gateway.get("/api/v1/requests").status_code == 403
    assert gateway.get("/api/v1/config").status_code == 403


def test_changes_are_recorded_under_the_name_of_the_key_whatever_the_caller_says(
    plane: GuardedPlane, admin: Any
) -> None:
    apply_tenants(plane.bearing(plane.key(Role.OPERATOR, name="ci")), reason="new customer")

    events = admin.get("/api/v1/audit", params={"subject": "Tenant/acme"}).json()["events"]
    assert [(e["actor"], e["action"], e["reason"]) for e in events] == [
        ("ci", "config.create", "new customer")
    ]
    assert events[0]["before"] is None
    assert events[0]["after"]["document"]["spec"]["tier"] == "gold"
    assert "+ tier: gold" in events[0]["changes"]


def test_a_key_is_shown_once_and_kept_nowhere(plane: GuardedPlane, admin: Any) -> None:
    made = admin.post("/api/v1/keys", json={"name": "app", "role": "viewer", "expires_in": "90d"})

    assert made.status_code == 201
    key = made.json()["key"]
    secret = key[17:]
    assert plane.bearing(key).get("/api/v1/me").json()["name"] == "app"
    for path in ("/api/v1/keys", "/api/v1/audit"):
        assert secret not in admin.get(path).text
    database = Path(str(plane.app.state.config_db.engine.url.database))
    held = b"".join(p.read_bytes() for p in database.parent.glob(f"{database.name}*"))
    assert secret.encode() not in held


def test_a_revoked_key_opens_nothing_from_then_on(plane: GuardedPlane, admin: Any) -> None:
    key = admin.post("/api/v1/keys", json={"name": "app", "role": "viewer"}).json()["key"]
    caller = plane.bearing(key)
    assert caller.get("/api/v1/me").status_code == 200

    assert admin.delete("/api/v1/keys/app", params={"reason": "leaked"}).status_code == 200

    assert caller.get("/api/v1/me").status_code == 401
    assert admin.delete("/api/v1/keys/app?reason=again").status_code == 404
    event = admin.get("/api/v1/audit", params={"action": "key.revoke"}).json()["events"][0]
    assert (event["subject"], event["reason"], event["after"]) == ("key/app", "leaked", None)


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"name": "x", "role": "client"}, 409, "tenant"),
        ({"name": "x", "role": "client", "tenant": "nobody"}, 409, "nobody"),
        ({"name": "x", "role": "admin", "tenant": "default"}, 409, "admin"),
        ({"name": "x", "role": "king"}, 422, "role"),
        ({"name": "x", "role": "controlplane"}, 422, "role"),
        ({"name": "", "role": "viewer"}, 422, "name"),
        ({"name": "x", "role": "viewer", "expires_in": "soon"}, 422, "expires_in"),
        ({"name": "x", "role": "viewer", "expires_in": "0s"}, 422, "expires_in"),
        ({"name": "admin-all", "role": "viewer"}, 409, "admin-all"),
        ({"name": "x", "role": "viewer", "sudo": True}, 422, "sudo"),
    ],
)
def test_a_key_that_cannot_be_made_says_why(
    admin: Any, body: dict[str, Any], status: int, named: str
) -> None:
    answer = admin.post("/api/v1/keys", json=body)

    assert answer.status_code == status, answer.text
    assert named in answer.text


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"name": "No Name", "role": "viewer"}, "body.name: 'No Name' is not a name: "),
        (
            {"name": "x", "role": "controlplane"},
            "body.role: no key with the role controlplane is given to anybody",
        ),
    ],
)
def test_what_is_wrong_with_a_body_is_told_in_our_words_alone(
    admin: Any, body: dict[str, Any], detail: str
) -> None:
    answer = admin.post("/api/v1/keys", json=body).json()

    assert answer["detail"].startswith(detail)
    [problem] = answer["problems"]
    assert f"{problem['where']}: {problem['what']}" == answer["detail"]


def test_the_last_admin_cannot_be_shut_out(plane: GuardedPlane) -> None:
    plane.user("ana", Role.ADMIN)
    admin = plane.bearing(plane.key(Role.ADMIN, name="root"))
    assert admin.delete("/api/v1/keys/root?reason=x").status_code == 200
    plane.user("bo", Role.VIEWER)

    browser = plane.browser()
    browser.post("/login", data={"name": "ana", "password": PASSWORD})
    token = browser.get("/access").text.split('name="csrf_token" value="')[1].split('"')[0]
    answer = browser.post(
        "/access/users/state",
        data={"name": "ana", "is_disabled": "true", "reason": "left", "csrf_token": token},
    )

    assert answer.status_code == 422
    assert "last admin" in answer.text


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


def test_a_body_beyond_every_use_is_refused_unread(plane: GuardedPlane, admin: Any) -> None:
    big = b"x" * (17 * 2**20)

    assert admin.post("/api/v1/apply", content=big).status_code == 413
    assert plane.http.post("/login", data={"name": "a" * 20_000}).status_code == 413


def test_a_page_of_another_site_changes_nothing(plane: GuardedPlane, admin: Any) -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = admin.post("/api/v1/keys", json={"name": "x", "role": "admin"}, headers=headers)
        assert answer.status_code == 403
    assert "x" not in {key["name"] for key in admin.get("/api/v1/keys").json()["keys"]}


def test_a_stream_ends_when_its_key_is_revoked(plane: GuardedPlane, admin: Any) -> None:
    gateway = plane.bearing(plane.key(Role.GATEWAY, name="g"))

    with gateway.stream("GET", "/api/v1/gateways/g/snapshots") as stream:
        assert stream.status_code == 200
        admin.delete("/api/v1/keys/g?reason=over")
        list(stream.iter_bytes())  # comes to an end

    assert gateway.get("/api/v1/gateways/g/snapshots").status_code == 401


def test_the_last_admins_key_cannot_be_revoked(plane: GuardedPlane) -> None:
    admin = plane.bearing(plane.key(Role.ADMIN, name="root"))

    refused = admin.delete("/api/v1/keys/root?reason=oops")
    assert refused.status_code == 409
    assert "last admin" in refused.json()["detail"]

    plane.user("ana", Role.ADMIN)
    assert admin.delete("/api/v1/keys/root?reason=done").status_code == 200


def test_shutting_somebody_out_needs_a_reason(plane: GuardedPlane, admin: Any) -> None:
    plane.user("bo", Role.VIEWER)
    plane.key(Role.VIEWER, name="app")

    assert admin.delete("/api/v1/keys/app").status_code == 422
    assert admin.patch("/api/v1/users/bo", json={"is_disabled": True}).status_code == 422


@pytest.mark.parametrize("foreign", ["gateway-1", "gateway-0-x", "gateway-00"])
def test_a_gateway_speaks_for_itself_alone(plane: GuardedPlane, foreign: str) -> None:
    gateway = plane.bearing(plane.key(Role.GATEWAY, name="gateway-0"))

    for answer in (
        gateway.put(f"/api/v1/gateways/{foreign}", content=b"{}"),
        gateway.get(f"/api/v1/gateways/{foreign}/snapshots"),
        gateway.post(
            "/api/v1/records",
            json={"gateway_id": f"{foreign}-9c1f9c1f9c1f", "num_lost": 7, "records": []},
        ),
    ):
        assert answer.status_code == 403, answer.text
        assert "gateway-0" in answer.json()["detail"]


def test_what_a_gateway_is_shown_opens_nothing_here_and_no_other_gateway(
    plane: GuardedPlane, admin: Any
) -> None:
    shown: list[str] = []

    class Eavesdropper(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers["authorization"].removeprefix("Bearer "))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"at_unix_ns": 1, "requests": []}')

        def log_message(self, *_: object) -> None:
            """Not a word."""

    server = HTTPServer(("127.0.0.1", 0), Eavesdropper)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    gateway = plane.bearing(plane.key(Role.GATEWAY, name="evil"))
    report = msgspec.json.encode(
        quiet_report("evil", address=f"http://127.0.0.1:{server.server_address[1]}")
    )
    assert gateway.put("/api/v1/gateways/evil", content=report).status_code == 204

    live = admin.get("/api/v1/requests/live").json()
    server.shutdown()
    server.server_close()

    assert live["gateways"][0]["error"] is None
    thief = plane.bearing(shown[0])
    assert thief.get("/api/v1/requests").status_code == 403
    assert thief.get("/api/v1/config").status_code == 403
    with plane.app.state.config_db.reading() as session:
        ring = KeyRing(keys_in_use(session, list(Role)))
    for name, opens in (("evil", True), ("gateway-0", False)):
        headers = {"authorization": f"Bearer {shown[0]}"}
        try:
            check_reader(AuthMode.REQUIRED, ring, headers, 1, name)
        except ApiRefusalError:
            assert not opens
        else:
            assert opens


def test_junk_is_not_remembered_and_a_large_head_is_not_read(plane: GuardedPlane) -> None:
    directory = plane.app.state.directory
    for number in range(50):
        plane.bearing(f"junk-{number}").get("/api/v1/me")
        plane.caller(cookie=f"pilothouse_session=junk-{number}").get("/api/v1/me")

    assert directory.num_remembered == 0


@pytest.mark.parametrize(
    "headers", [{"origin": "http://["}, {"host": "["}, {"cookie": "a=b; =;;; c"}]
)
def test_headers_that_cannot_be_read_are_no_failure_of_ours(
    plane: GuardedPlane, headers: dict[str, str]
) -> None:
    answer = plane.caller(**headers).post("/login", data={"name": "a", "next": "http://["})

    assert answer.status_code in (400, 401, 403)


def test_a_silent_database_is_503_for_programs_and_a_page_for_people(
    plane: GuardedPlane, admin: Any
) -> None:
    with plane.app.state.config_db.session() as session:
        session.execute(text("ALTER TABLE access_keys RENAME TO away"))
        session.execute(text("ALTER TABLE login_sessions RENAME TO away_too"))
    plane.app.state.directory.forget()
    token = "a" * 43

    program = admin.get("/api/v1/requests")
    browser = plane.caller(accept="text/html", cookie=f"pilothouse_session={token}")
    page = browser.get("/requests")

    assert program.status_code == 503
    assert program.json()["detail"]
    assert page.status_code == 503
    assert "<h1>" in page.text
    for secret in (token, "SELECT"):
        assert secret not in program.text + page.text


def test_health_tells_strangers_nothing_of_an_error(plane: GuardedPlane) -> None:
    with plane.app.state.config_db.session() as session:
        session.execute(text("ALTER TABLE deployments RENAME TO away"))
    plane.app.state.operator.wake()
    deadline = time.monotonic() + 20
    while plane.app.state.operator.error is None:
        assert time.monotonic() < deadline, "no pass failed"
        time.sleep(0.05)

    answer = plane.http.get("/healthz")

    assert answer.status_code == 503
    assert "log" in answer.text
    assert "SELECT" not in answer.text
