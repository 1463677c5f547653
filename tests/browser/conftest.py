"""One browser and one seeded console for all of these tests."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

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
