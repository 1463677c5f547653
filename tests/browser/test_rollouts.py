"""A rollout by keyboard alone: from the list to what an action would do, to its doing."""

import pytest
from playwright.sync_api import Browser, Page, expect

from ops.screenshots import overflow
from tests.browser.running_console import RunningConsole
from tests.browser.test_accessibility import dark_violations, violations

pytestmark = pytest.mark.browser


def test_a_rollout_is_looked_at_and_aborted_without_a_mouse(
    page: Page, own_console: RunningConsole
) -> None:
    url = own_console.url
    page.goto(url)
    page.keyboard.press("g")
    page.keyboard.press("l")
    page.wait_for_url(f"{url}/rollouts")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/rollouts/3")
    page.get_by_role("button", name="Abort…").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/rollouts/3?ask=abort")
    plan = page.get_by_role("region", name="what would happen")
    expect(plan).to_contain_text("25 % → 0 %")
    assert overflow(page) <= 0
    page.emulate_media(color_scheme="light")
    assert violations(page) == []
    assert dark_violations(page) == []
    plan.get_by_label("Reason").focus()
    page.keyboard.type("answers are odd")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/rollouts/3")
    expect(page.locator(".lead")).to_contain_text("aborted at step 2 of 3")
    expect(page.locator("main")).to_contain_text("answers are odd")
    expect(page.get_by_role("button", name="Retry…")).to_be_visible()


def test_what_is_typed_stays_while_the_page_looks_again(
    page: Page, own_console: RunningConsole
) -> None:
    page.goto(f"{own_console.url}/rollouts/3?ask=pause")
    page.get_by_label("Reason").fill("lunch")
    with page.expect_response(f"{own_console.url}/rollouts/3"):
        pass
    expect(page.get_by_label("Reason")).to_have_value("lunch")
    page.get_by_role("button", name="Pause rollout 3").click()
    expect(page.locator(".lead")).to_contain_text("paused at step 2 of 3")


def test_without_script_it_is_paused_all_the_same(
    browser: Browser, own_console: RunningConsole
) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{own_console.url}/rollouts/3")
        page.get_by_role("button", name="Pause…").click()
        page.get_by_label("Reason").fill("lunch")
        page.get_by_role("button", name="Pause rollout 3").click()
        expect(page.locator(".lead")).to_contain_text("paused at step 2 of 3")
