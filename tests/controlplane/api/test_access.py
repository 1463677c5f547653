"""Nobody unknown gets past the door, and whoever is known no further than they may."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from controlplane.api import authorization
from controlplane.store.access_keys import keys_in_use
from dataplane.access import AuthMode, KeyRing, Role
from dataplane.gateway.callers import check_reader
from dataplane.gateway.openai_api.errors import ApiRefusalError
from tests.controlplane.api.guarded_paths import GATEWAY_ID, apply_tenants, routes_of
from tests.controlplane.guarded_plane import GuardedPlane, guarded_plane
from tests.controlplane.quiet_gateway import quiet_report


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        yield plane


@pytest.fixture
def admin(plane: GuardedPlane) -> Any:
    return plane.bearing(plane.key(Role.ADMIN))


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
        | authorization.FROM_ALERTMANAGERS
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
