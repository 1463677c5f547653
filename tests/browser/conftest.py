"""One browser and one seeded console for all of these tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from ops.screenshots import CHROMIUM_ARGUMENTS
from tests.browser.running_console import RunningConsole, serve_console


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with serve_console(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium is not None, "install Debian's chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=list(CHROMIUM_ARGUMENTS)
        )
        yield launched
        launched.close()


@pytest.fixture
def own_console(tmp_path: Path) -> Iterator[RunningConsole]:
    """One that others do not look at: what is in force here is on each of its pages."""
    with serve_console(tmp_path) as running:
        yield running


@pytest.fixture(params=[1280, 390])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """As wide as a desk's and as a telephone's."""
    opened = browser.new_page(
        viewport={"width": request.param, "height": 900}, reduced_motion="reduce"
    )
    yield opened
    opened.close()
