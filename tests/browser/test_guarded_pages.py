"""Logging in and handing out keys: by keyboard alone, and axe-core finds nothing."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, Page

from dataplane.access import Role
from tests.browser.test_accessibility import dark_violations, violations
from tests.controlplane.guarded_plane import PASSWORD, guarded_plane

pytestmark = pytest.mark.browser


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A control plane that asks who is calling, with one admin, one viewer and one key."""
    with guarded_plane(folder) as plane:
        plane.user("ana", Role.ADMIN)
        plane.user("bo", Role.VIEWER, tenant="default")
        plane.key(Role.CLIENT, tenant="default", name="app-7")
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(plane.app, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            listener.close()


def log_in(page: Page, url: str) -> None:
    """With the keyboard: the name has the focus."""
    page.goto(f"{url}/access")
    # The focus comes with the first frame, which a busy machine draws after the load.
    page.locator("input[name=name]:focus").wait_for()
    page.keyboard.type("ana")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/access")


def test_a_key_is_made_and_revoked_without_a_mouse(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    with served(tmp_path) as url:
        log_in(page, url)
        page.get_by_text("Make a key").focus()
        page.keyboard.press("Enter")
        page.get_by_text("Make a key").press("Tab")
        page.keyboard.type("ci")
        page.keyboard.press("Tab")
        page.keyboard.type("viewer")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.locator("code.break").inner_text().startswith("phk_")

        page.get_by_label("Revoke ci").press("Enter")
        page.get_by_label("Revoke ci").press("Tab")
        page.keyboard.type("done with it")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{url}/access")
        assert page.get_by_label("Revoke ci").count() == 0
        page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_where_people_log_in_and_keys_are_made(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    found: dict[tuple[str, str], list[str]] = {}
    with served(tmp_path) as url:
        for name in ("login", "access", "audit"):
            if name == "access":
                log_in(page, url)
            page.goto(f"{url}/{name}")
            for summary in page.locator("summary").all():
                summary.click()
            page.emulate_media(color_scheme="light")
            found[name, "light"] = violations(page)
            found[name, "dark"] = dark_violations(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
    assert {where: what for where, what in found.items() if what} == {}
