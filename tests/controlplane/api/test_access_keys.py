"""Keys: made once, shown once, revoked at once, and never the last admin's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dataplane.access import Role
from tests.controlplane.guarded_plane import PASSWORD, GuardedPlane, guarded_plane


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        yield plane


@pytest.fixture
def admin(plane: GuardedPlane) -> Any:
    return plane.bearing(plane.key(Role.ADMIN))


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
