"""Break-glass by keyboard alone: begun, on every page, and ended; axe-core finds nothing."""

import pytest
from playwright.sync_api import Page, expect

from ops.screenshots import overflow
from tests.browser.running_console import RunningConsole
from tests.browser.test_accessibility import violations

pytestmark = pytest.mark.browser


def begin(page: Page, url: str) -> None:
    """Lift the limits of chat for class interactive, with the keyboard."""
    page.goto(f"{url}/break-glass")
    page.get_by_text("Lift the limits").first.focus()
    page.keyboard.press("Enter")
    form = page.locator("details[open] form")
    form.get_by_label("Deployment").select_option("chat")
    form.get_by_label("Class").focus()
    page.keyboard.type("interactive")
    form.get_by_label("For how long").focus()
    page.keyboard.type("30m")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("launch day")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/break-glass")


def test_an_override_is_begun_shown_on_every_page_and_ended_without_a_mouse(
    page: Page, own_console: RunningConsole
) -> None:
    url = own_console.url
    begin(page, url)
    banner = page.get_by_role("complementary", name="Break-glass in force")
    expect(banner).to_contain_text("limits are off for class interactive")
    for path in ("/", "/requests", "/deployments/chat", "/config", "/audit", "/nowhere"):
        page.goto(url + path)
        expect(banner).to_contain_text("launch day")
        assert overflow(page) <= 0, path
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url(f"{url}/break-glass")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == []
    page.locator("td details summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("calm again")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(banner).to_have_count(0)
    expect(page.locator("main")).to_contain_text("Nothing is overridden")
    expect(page.locator("main")).to_contain_text("calm again")


def test_what_cannot_be_enforced_is_said_and_the_form_stays_as_it_was(
    page: Page, own_console: RunningConsole
) -> None:
    page.goto(f"{own_console.url}/break-glass")
    page.get_by_text("Pin a policy").first.focus()
    page.keyboard.press("Enter")
    form = page.locator("details[open] form")
    form.get_by_label("Deployment").select_option("chat")
    form.get_by_label("Revision").fill("chat@99")
    form.get_by_label("For how long").fill("2h")
    form.get_by_label("Reason").fill("chat@2 refuses everybody")
    form.get_by_role("button").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("there is no AdmissionPolicy chat@99")
    expect(page.locator("details[open] form").get_by_label("Reason")).to_have_value(
        "chat@2 refuses everybody"
    )
    assert violations(page) == []
