"""axe-core finds nothing on any page, in both themes, wide and narrow."""

from pathlib import Path

import axe_playwright_python  # type: ignore[import-untyped]
import pytest
from playwright.sync_api import Page

from ops.screenshots import find_pages
from tests.browser.running_console import RunningConsole

pytestmark = pytest.mark.browser

_AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
_RUN = """options => axe.run(document, {resultTypes: ['violations'], ...options}).then(result => ({
  numPassed: result.passes.length,
  violations: result.violations.map(each => `${each.id}: ${each.nodes[0].html}`),
}))"""
_COLOURS = {"runOnly": ["color-contrast"]}


def violations(page: Page) -> list[str]:
    """Run by the debugger's side door: the page's own policy would not let it in."""
    page.evaluate(_AXE)
    found = page.evaluate(_RUN, {})
    assert found["numPassed"] > 5, "axe ran over a page"
    result: list[str] = found["violations"]
    return result


def dark_violations(page: Page) -> list[str]:
    """Of a page that was looked through in light: between themes only colours differ."""
    page.emulate_media(color_scheme="dark")
    found = page.evaluate(_RUN, _COLOURS)
    assert found["numPassed"] == 1, "axe found colours"
    result: list[str] = found["violations"]
    return result


def test_axe_finds_nothing_on_any_page(page: Page, console: RunningConsole) -> None:
    found = {}
    pages = find_pages(console.url)
    assert {"overview", "deployments", "deployment-chat", "config", "audit", "access"} <= set(pages)
    for name, path in pages.items():
        page.emulate_media(color_scheme="light")
        page.goto(console.url + path)
        if page.locator("[data-series]").count():
            page.wait_for_selector(".plot")
        found[name, "light"] = violations(page)
        found[name, "dark"] = dark_violations(page)
    assert {name: what for name, what in found.items() if what} == {}


def test_axe_would_find_something(page: Page, console: RunningConsole) -> None:
    page.goto(f"{console.url}/config")
    page.evaluate("document.querySelector('#find').labels[0].remove()")
    page.evaluate("document.querySelector('#find').removeAttribute('placeholder')")
    assert any(each.startswith("label:") for each in violations(page))


def test_axe_would_find_colours_that_are_dim_in_the_dark_alone(
    page: Page, console: RunningConsole
) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{console.url}/config")
    assert violations(page) == []
    page.evaluate("document.querySelector('h1').style.color = '#555'")
    assert violations(page) == []
    assert [each.partition(":")[0] for each in dark_violations(page)] == ["color-contrast"]
