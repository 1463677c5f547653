"""Every page's main task by keyboard alone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.running_console import RunningConsole

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser: Browser, console: RunningConsole) -> Iterator[Page]:
    opened = browser.new_page(base_url=console.url, viewport={"width": 1280, "height": 900})
    yield opened
    opened.close()


def focused(page: Page) -> str:
    text: str = page.evaluate("document.activeElement.textContent.trim()")
    return text


def path(page: Page) -> str:
    where: str = page.evaluate("location.pathname")
    return where


def test_slash_finds_a_request_from_any_page(page: Page) -> None:
    page.goto("/config")
    page.keyboard.press("/")
    page.keyboard.type("there-is-none")
    page.keyboard.press("Enter")
    page.wait_for_url("**/requests/there-is-none")
    assert "may still be in flight" in page.inner_text(".lead")


def test_j_and_k_walk_a_list_and_enter_opens(page: Page) -> None:
    page.goto("/deployments")
    page.keyboard.press("j")
    assert focused(page) == "chat"
    page.keyboard.press("j")
    assert focused(page) == "summarize"
    page.keyboard.press("ArrowUp")
    assert focused(page) == "chat"
    page.keyboard.press("k")
    assert focused(page) == "chat", "the first line is the end of the way up"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus is visible"
    page.keyboard.press("Enter")
    page.wait_for_url("**/deployments/chat")


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("o", "/"),
        ("d", "/deployments"),
        ("s", "/slo"),
        ("r", "/requests"),
        ("u", "/usage"),
        ("c", "/config"),
        ("a", "/audit"),
        ("x", "/access"),
    ],
)
def test_g_and_a_letter_jump_to_a_page(page: Page, key: str, where: str) -> None:
    page.goto("/login" if where == "/" else "/")
    page.goto("/requests/there-is-none")
    page.keyboard.press("g")
    page.keyboard.press(key)
    page.wait_for_function("where => location.pathname === where", arg=where)


def test_the_keys_are_listed_and_let_go_again(page: Page) -> None:
    page.goto("/requests")
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()


def test_single_keys_can_be_switched_off_for_good(page: Page) -> None:
    page.goto("/deployments")
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Single keys are on").uncheck()
    page.keyboard.press("Escape")
    page.goto("/deployments")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement === document.body")


def test_letters_typed_into_a_field_stay_letters(page: Page) -> None:
    page.goto("/deployments/chat")
    page.get_by_label("What ran at").fill("")
    page.keyboard.type("j?/g")
    assert page.get_by_label("What ran at").input_value() == "j?/g"
    assert not page.locator("#keys").is_visible()


def test_tab_passes_through_every_page_and_is_held_nowhere(page: Page) -> None:
    for where in (
        "/",
        "/deployments/chat",
        "/config/admissionpolicy/chat",
        "/requests?tenant=acme",
    ):
        page.goto(where)
        if page.locator("[data-series]").count():
            page.wait_for_selector(".plot details")
        seen = 0
        page.keyboard.press("Tab")
        for _ in range(400):
            if page.evaluate("document.activeElement === document.body"):
                break
            seen += 1
            page.keyboard.press("Tab")
        assert 10 < seen < 400, where


def test_a_change_of_config_is_read_from_a_chart_by_keyboard(page: Page) -> None:
    page.goto("/deployments/chat")
    marks = page.locator(".plot").first.locator(".mark.k-config")
    marks.first.wait_for()
    told = []
    for mark in marks.all():  # moves of rollouts are such marks as well
        mark.focus()
        told.append(page.locator(".plot .tip").first.inner_text())
    assert any("policy chat@1 → chat@2 by ben" in each for each in told), told
    page.keyboard.press("Escape")
    assert not page.locator(".plot .tip").first.is_visible()
