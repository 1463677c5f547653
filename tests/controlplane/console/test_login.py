"""People log in, stay for a while, and what their browser sends is theirs alone."""

import html
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from sqlalchemy.orm import Session

from controlplane.access.passwords import hash_password
from controlplane.access.throttle import _PER_USER_AND_ADDRESS, LoginThrottle
from controlplane.store.sessions import IDLE_NS, LIFETIME_NS, begin_session, find_session
from controlplane.store.users import set_password
from dataplane.access import Role
from tests.controlplane.guarded_plane import PASSWORD, GuardedPlane, guarded_plane

NOW = 1_800_000_000 * 10**9


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        plane.user("ana", Role.ADMIN)
        yield plane


def log_in(browser: TestClient, name: str, password: str = PASSWORD, wanted: str = "/") -> Response:
    return browser.post("/login", data={"name": name, "password": password, "next": wanted})


def csrf_token(browser: TestClient, path: str) -> str:
    return browser.get(path).text.split('name="csrf_token" value="')[1].split('"')[0]


def test_a_page_leads_to_the_login_and_back(plane: GuardedPlane) -> None:
    browser = plane.browser()

    asked = browser.get("/requests?tenant=acme")
    assert asked.status_code == 303
    assert asked.headers["location"] == "/login?next=%2Frequests%3Ftenant%3Dacme"
    form = browser.get(asked.headers["location"])
    assert 'value="/requests?tenant=acme"' in form.text

    answer = log_in(browser, "ana", wanted="/requests?tenant=acme")
    assert (answer.status_code, answer.headers["location"]) == (303, "/requests?tenant=acme")
    assert browser.get("/requests?tenant=acme").status_code == 200


def test_the_cookie_is_for_this_site_and_no_script(plane: GuardedPlane) -> None:
    cookie = log_in(plane.browser(), "ana").headers["set-cookie"].lower()

    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie


@pytest.mark.parametrize(
    "wanted",
    ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/login"],
)
def test_nobody_is_led_to_another_site(plane: GuardedPlane, wanted: str) -> None:
    assert log_in(plane.browser(), "ana", wanted=wanted).headers["location"] == "/"


@pytest.mark.parametrize(("name", "password"), [("ana", "wrong"), ("nobody", PASSWORD), ("", "")])
def test_a_wrong_pair_is_refused_in_the_same_words(
    plane: GuardedPlane, name: str, password: str
) -> None:
    answer = log_in(plane.browser(), name, password)

    assert answer.status_code == 401
    assert "do not belong together" in answer.text
    assert "set-cookie" not in answer.headers
    assert PASSWORD not in answer.text


def test_guessing_is_slowed_down_and_says_for_how_long(plane: GuardedPlane) -> None:
    browser = plane.browser()
    for _ in range(_PER_USER_AND_ADDRESS.amount):
        assert log_in(browser, "ana", "wrong").status_code == 401

    answer = log_in(browser, "ana")

    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 300


def test_logging_out_ends_the_session_on_the_server_as_well(plane: GuardedPlane) -> None:
    browser = plane.browser()
    log_in(browser, "ana")
    token = browser.cookies["pilothouse_session"]

    browser.post("/logout", data={"csrf_token": csrf_token(browser, "/access")})

    other = plane.caller(accept="text/html", cookie=f"pilothouse_session={token}")
    assert other.get("/access").headers["location"].startswith("/login")


def test_a_form_without_its_token_changes_nothing(plane: GuardedPlane) -> None:
    browser = plane.browser()
    log_in(browser, "ana")
    form = {"name": "x", "role": "admin"}

    for data in (form, form | {"csrf_token": "guess"}, form | {"csrf_token": "ä"}):
        answer = browser.post("/access/keys", data=data)
        assert answer.status_code == 403
        assert "out of date" in answer.text
    assert browser.post("/logout").status_code == 403

    assert "There are no keys" in browser.get("/access").text


def test_a_browsers_session_changes_nothing_through_the_api(plane: GuardedPlane) -> None:
    browser = plane.browser()
    log_in(browser, "ana")

    assert browser.get("/api/v1/keys").status_code == 200
    answer = browser.post("/api/v1/keys", json={"name": "x", "role": "admin"})
    assert answer.status_code == 403
    assert "key" in answer.json()["detail"]


def test_an_admin_makes_a_key_on_the_page_and_ends_it_there(plane: GuardedPlane) -> None:
    browser = plane.browser()
    log_in(browser, "ana")
    token = csrf_token(browser, "/access")

    made = browser.post(
        "/access/keys", data={"name": "ci", "role": "operator", "csrf_token": token}
    )
    key = made.text.split('<code class="break">')[1].split("<")[0]
    caller = plane.bearing(key)
    assert caller.get("/api/v1/me").json() == {"name": "ci", "role": "operator", "tenant": None}
    assert key not in browser.get("/access").text

    browser.post(
        "/access/keys/revoke", data={"key_id": key[4:16], "reason": "old", "csrf_token": token}
    )
    assert caller.get("/api/v1/me").status_code == 401


def test_what_cannot_be_made_is_said_on_the_page(plane: GuardedPlane) -> None:
    browser = plane.browser()
    log_in(browser, "ana")
    token = {"csrf_token": csrf_token(browser, "/access")}

    for path, data, said in (
        ("/access/keys", {"name": "x", "role": "client"}, "belongs to a tenant"),
        ("/access/keys", {"name": "<b>", "role": "viewer"}, "Name:"),
        ("/access/keys", {"name": "x", "role": "viewer", "expires_in": "soon"}, "soon"),
        ("/access/users", {"name": "bo", "role": "viewer", "password": "tooshrt"}, "12 to 1024"),
        ("/access/users", {"name": "ana", "role": "viewer", "password": PASSWORD}, "ana"),
    ):
        answer = browser.post(path, data=data | token)
        assert answer.status_code == 422, path
        assert said in answer.text
        # What was filled in is there to be mended, but for the password.
        assert '<details class="maker" open>' in answer.text
        assert f'value="{html.escape(data["name"])}"' in answer.text
        assert data.get("password", "never given") not in answer.text
        assert "<b>" not in answer.text.replace("<b>There", "")


def test_a_disabled_user_is_out_at_once(plane: GuardedPlane) -> None:
    plane.user("bo", Role.VIEWER)
    bo, admin = plane.browser(), plane.browser()
    log_in(bo, "bo")
    log_in(admin, "ana")
    assert bo.get("/requests").status_code == 200

    token = csrf_token(admin, "/access")
    admin.post(
        "/access/users/state",
        data={"name": "bo", "is_disabled": "true", "reason": "left", "csrf_token": token},
    )

    assert bo.get("/requests").status_code == 303
    assert log_in(bo, "bo").status_code == 401


def test_the_menu_has_what_its_reader_may_open(plane: GuardedPlane) -> None:
    plane.user("bo", Role.VIEWER)
    plane.user("cy", Role.VIEWER, tenant="default")
    menus = {}
    for name in ("ana", "bo", "cy"):
        browser = plane.browser()
        log_in(browser, name)
        text = browser.get("/requests").text
        menus[name] = {path for path in ("/audit", "/access", "/requests") if f'"{path}"' in text}

    assert menus["ana"] == {"/audit", "/access", "/requests"}
    assert menus["bo"] == {"/audit", "/requests"}
    assert menus["cy"] == {"/requests"}


def test_a_session_ends_when_nobody_uses_it_and_after_a_week_anyway(plane: GuardedPlane) -> None:
    with plane.app.state.config_db.session() as session:
        token = begin_session(session, "ana", NOW).token
        assert find_session(session, token, NOW + IDLE_NS - 1) is not None
        assert find_session(session, token, NOW + IDLE_NS) is None
        assert find_session(session, token, NOW + LIFETIME_NS) is None
        assert find_session(session, "another", NOW) is None


def test_a_tenants_viewer_is_not_told_when_others_requests_end(plane: GuardedPlane) -> None:
    plane.user("cy", Role.VIEWER, tenant="default")
    browser = plane.browser()
    log_in(browser, "cy")

    assert "/api/v1/events" not in browser.get("/requests").text
    assert browser.get("/api/v1/events").status_code == 403
    assert browser.get("/").headers["location"] == "/requests"


def test_one_address_cannot_keep_a_user_out_from_everywhere(plane: GuardedPlane) -> None:
    throttle = plane.app.state.login_throttle
    now = time.time()
    for _ in range(200):
        throttle.begin_attempt("ana", "10.0.0.66", now)

    assert throttle.begin_attempt("ana", "10.0.0.66", now) > 0
    assert throttle.begin_attempt("ana", "10.0.0.7", now) == 0


def test_a_password_that_was_replaced_while_it_was_checked_lets_nobody_in(
    plane: GuardedPlane,
) -> None:
    hashed = hash_password("another password")
    browser = plane.browser()
    replaced: list[bool] = []

    class Slow(LoginThrottle):
        """The moment between two reads, held open."""

        def begin_attempt(self, user: str, address: str, now_unix: float) -> int:
            return 0

    plane.app.state.login_throttle = Slow()
    original = plane.app.state.config_db.reading

    @contextmanager
    def reading() -> Iterator[Session]:
        with original() as session:
            yield session
        if not replaced:
            replaced.append(True)
            with plane.app.state.config_db.session() as session:
                set_password(session, "ana", hashed, actor="ana")

    plane.app.state.config_db.reading = reading
    assert log_in(browser, "ana").status_code == 401
    assert replaced
