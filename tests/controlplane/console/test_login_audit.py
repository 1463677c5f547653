"""Who logs in and out, and who cannot, stands in the audit: never a password, never a flood."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import text

from controlplane.access.login_audit import NOBODY, LoginAudit
from controlplane.access.login_tally import WINDOW_NS, Failure, LoginTally
from controlplane.access.throttle import _PER_USER_AND_ADDRESS
from controlplane.cli import main
from controlplane.store.audit import AuditEvent, AuditFilter, list_events
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.users import set_disabled
from dataplane.access import Role
from tests.controlplane.console.test_login import csrf_token, log_in
from tests.controlplane.control_plane_server import serve_control_plane
from tests.controlplane.guarded_plane import PASSWORD, GuardedPlane, guarded_plane
from tests.databases import Databases

ADDRESS = "testclient"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        plane.user("ana", Role.ADMIN)
        yield plane


def events_in(database: Database) -> list[AuditEvent]:
    """Of logins, the oldest first."""
    with database.reading() as session:
        return list_events(session, AuditFilter(action="login"), limit=1000)[::-1]


def noted(plane: GuardedPlane) -> list[AuditEvent]:
    return events_in(plane.app.state.config_db)


def told(event: AuditEvent) -> tuple[str, str, str]:
    return (event.actor, event.action, event.subject)


def test_a_login_and_a_logout_are_noted_with_name_and_address(plane: GuardedPlane) -> None:
    browser = plane.browser()
    log_in(browser, "ana")
    browser.post("/logout", data={"csrf_token": csrf_token(browser, "/access")})

    begun, ended = noted(plane)
    assert told(begun) == ("ana", "login.begin", "user/ana")
    assert told(ended) == ("ana", "login.end", "user/ana")
    assert begun.after == ended.before == {"address": ADDRESS}
    assert begun.reason == ended.reason == f"from {ADDRESS}"


def test_a_session_that_has_ended_cannot_be_logged_out_of_again(plane: GuardedPlane) -> None:
    browser = plane.browser()
    log_in(browser, "ana")
    form = {"csrf_token": csrf_token(browser, "/access")}
    cookie = f"pilothouse_session={browser.cookies['pilothouse_session']}"
    browser.post("/logout", data=form)

    plane.caller(accept="text/html", cookie=cookie).post("/logout", data=form)

    assert [event.action for event in noted(plane)] == ["login.begin", "login.end"]


def test_failures_say_why_and_of_whom_and_claim_nobody_did_it(plane: GuardedPlane) -> None:
    plane.user("bo", Role.VIEWER)
    with plane.app.state.config_db.session() as session:
        set_disabled(session, "bo", True, actor="test")
    log_in(plane.browser(), "ana", "wrong")
    log_in(plane.browser(), "bo")
    log_in(plane.browser(), "nobody")

    events = noted(plane)
    assert [told(event) for event in events] == [
        (NOBODY, "login.fail", "user/ana"),
        (NOBODY, "login.fail", "user/bo"),
        (NOBODY, "login.fail", f"user/{NOBODY}"),
    ]
    assert [event.reason for event in events] == [
        f"wrong password, from {ADDRESS}",
        f"the user is disabled, from {ADDRESS}",
        f"no such user, from {ADDRESS}",
    ]
    assert events[0].after is not None
    assert (events[0].after["address"], events[0].after["attempts"]) == (ADDRESS, 1)


def test_neither_a_password_nor_one_typed_for_a_name_is_kept(plane: GuardedPlane) -> None:
    for name, password in (
        ("ana", PASSWORD),
        ("ana", "guess-of-a-password"),
        (PASSWORD, ""),
        ("hunter-2", "hunter-2"),
    ):
        log_in(plane.browser(), name, password)

    with plane.app.state.config_db.reading() as session:
        rows = session.execute(text("SELECT * FROM audit_events")).all()
    assert len(rows) >= 4
    for secret in (PASSWORD, "guess-of-a-password", "hunter-2"):
        assert secret not in str(rows)


def test_guessing_leaves_three_lines_and_all_of_it_is_counted(tmp_path: Path) -> None:
    num_tries = 40
    with guarded_plane(tmp_path) as plane:
        plane.user("ana", Role.ADMIN)
        for _ in range(num_tries):
            log_in(plane.browser(), "ana", "wrong")
        at_once = noted(plane)
        database = plane.app.state.config_db
    # What is only counted yet is told when the control plane ends.
    whole = events_in(database)
    database.close()

    assert [event.action for event in at_once] == ["login.fail", "login.throttle"]
    counts = [event.after["attempts"] for event in whole[2:] if event.after]
    assert counts == [_PER_USER_AND_ADDRESS.amount, num_tries - _PER_USER_AND_ADDRESS.amount]
    assert whole[3].action == "login.throttle"
    assert whole[3].subject == "user/ana"
    assert whole[3].reason.startswith(f"{counts[1]} times in all within ")
    assert whole[3].reason.endswith(f"s: too many attempts, not tried, from {ADDRESS}")


def test_a_count_is_told_with_the_next_attempt_after_its_window(databases: Databases) -> None:
    database = databases.open(DatabaseKind.CONFIG)
    now = 1_800_000_000 * 10**9
    audit = LoginAudit(database, LoginTally(), clock=lambda: now)
    try:
        for _ in range(3):
            audit.note_failure(Failure.UNKNOWN, None, "10.0.0.3")
        now += WINDOW_NS
        audit.note_failure(Failure.UNKNOWN, None, "10.0.0.3")
        audit.close()

        told = [(event.reason, event.at_unix_ns) for event in events_in(database)]
    finally:
        database.close()

    assert told == [
        ("no such user, from 10.0.0.3", now - WINDOW_NS),
        ("3 times in all within 0 s: no such user, from 10.0.0.3", now),
        ("no such user, from 10.0.0.3", now),
    ]


def test_logins_are_shown_by_the_api_and_on_the_page(plane: GuardedPlane) -> None:
    browser = plane.browser()
    log_in(browser, "ana", "wrong")
    log_in(browser, "ana")

    answer: dict[str, Any] = browser.get("/api/v1/audit?action=login&subject=user/ana").json()
    page = browser.get("/audit?action=login").text

    assert [event["action"] for event in answer["events"]] == ["login.begin", "login.fail"]
    for said in ("login.begin", "login.fail", f"wrong password, from {ADDRESS}", NOBODY):
        assert said in page


def test_logins_are_shown_by_the_command(tmp_path: Path) -> None:
    with serve_control_plane(tmp_path) as (url, opened):
        audit = LoginAudit(opened.config_db)
        with opened.config_db.session() as session:
            audit.note_begin(session, "ana", "10.0.0.3")
        audit.note_failure(Failure.UNKNOWN, None, "10.0.0.4")
        audit.close()
        arguments = ["audit", "--action", "login", "--url", url]
        table = CliRunner().invoke(main, arguments).output
        lines = CliRunner().invoke(main, [*arguments, "-o", "json"]).stdout.splitlines()

    assert "login.begin  user/ana" in table
    assert "no such user, from 10.0.0.4" in table
    assert [json.loads(line)["after"]["address"] for line in lines] == ["10.0.0.4", "10.0.0.3"]
