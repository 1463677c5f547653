"""The console in a real browser: every page, both themes, wide and narrow."""

import time
from functools import partial

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, ConsoleMessage, Page

from controlplane.api.changes import request_changes
from ops.sample_requests import Sample, failed
from ops.screenshots import find_pages, is_expected, overflow
from ops.seeded_console import store
from tests.browser.running_console import RunningConsole

pytestmark = pytest.mark.browser

WIDE, NARROW = 1280, 390


@pytest.fixture(scope="module")
def app(console: RunningConsole) -> FastAPI:
    return console.app


@pytest.fixture(scope="module")
def url(console: RunningConsole) -> str:
    return console.url


def note_error(said: list[str], message: ConsoleMessage) -> None:
    if message.type == "error" and not is_expected(message.text):
        said.append(message.text)


def background(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_page_fits_and_logs_no_error_in_both_themes(
    browser: Browser, url: str, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    page.on("console", partial(note_error, said))
    page.on("pageerror", lambda error: said.append(str(error)))
    pages = find_pages(url)
    assert len(pages) > 10
    for path in pages.values():
        page.goto(url + path)
        backgrounds = set()
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            backgrounds.add(background(page))
            assert overflow(page) <= 0, f"{path} at {width} px, {theme}"
        assert len(backgrounds) == 2, "the system's theme is followed"
    page.close()
    assert said == []


def test_the_theme_button_overrules_the_system_and_lasts(browser: Browser, url: str) -> None:
    page = browser.new_page(color_scheme="light")
    page.goto(url + "/requests")
    light = background(page)
    page.get_by_role("button", name="Theme: system").click()
    assert background(page) == light
    page.get_by_role("button", name="Theme: light").click()
    dark = background(page)
    assert dark != light
    page.goto(url + "/")
    assert background(page) == dark
    page.close()


def test_the_keyboard_reaches_content_first_and_then_the_menu(browser: Browser, url: str) -> None:
    page = browser.new_page()
    page.goto(url + "/requests")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus is visible"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.close()


def test_from_the_list_to_a_request_and_back(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport={"width": NARROW, "height": 900})
    page.goto(url + "/requests")
    page.get_by_label("Ended").first.select_option("error")
    page.get_by_role("button", name="Filter").click()
    page.locator("#list tbody a").first.click()
    assert "Failed: replica chat-1 vanished" in page.inner_text(".lead")
    assert page.locator(".narrow li").count() == 5
    assert page.locator(".narrow").is_visible()
    assert not page.locator("svg.wide").is_visible()
    page.get_by_role("link", name="Requests").first.click()
    page.wait_for_url("**/requests")
    page.close()


def test_the_wide_waterfall_is_drawn_with_the_phases_colours(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport={"width": WIDE, "height": 900})
    page.goto(url + find_pages(url)["request-error"])
    assert page.locator("svg.wide").is_visible()
    fills = page.evaluate(
        "['queue','prefill','decode','delivery'].map(name =>"
        " getComputedStyle(document.querySelector(`svg.wide .p-${name}`)).fill)"
    )
    assert len(set(fills)) == 4
    page.close()


def test_a_request_that_ends_appears_without_a_reload(
    browser: Browser, url: str, app: FastAPI
) -> None:
    page = browser.new_page()
    page.goto(url + "/requests?tenant=latecomer")
    page.wait_for_selector("text=No request matches")
    page.wait_for_timeout(700)
    store(
        app,
        [failed(Sample(sequence=90_001, arrived_at_unix_ns=time.time_ns(), tenant="latecomer"))],
    )
    request_changes(app.state).note()
    page.wait_for_selector("#list tbody >> text=latecomer", timeout=8000)
    page.close()


def test_the_filters_work_without_javascript(browser: Browser, url: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(url + "/requests")
    page.get_by_label("Ended").first.select_option("lost")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("#list tbody tr").count() > 0
    assert set(page.locator("#list tbody td[data-label=Ended]").all_inner_texts()) == {"▲ lost"}
    context.close()


def test_the_table_of_requests_is_seen_whole_and_a_cut_one_has_a_shaded_edge(
    browser: Browser, url: str
) -> None:
    page = browser.new_page(viewport={"width": WIDE, "height": 900})
    page.goto(f"{url}/requests")
    measure = "e => [e.scrollWidth - e.clientWidth, getComputedStyle(e).backgroundAttachment]"
    hidden, _ = page.locator("#list .panel").evaluate(measure)
    assert hidden == 0
    page.set_viewport_size({"width": 900, "height": 900})
    hidden, attachment = page.locator("#list .panel").evaluate(measure)
    assert hidden > 0
    assert {"local", "scroll"} <= set(attachment.split(", "))
    page.close()
