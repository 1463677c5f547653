"""A silence by keyboard alone: from the promise to the plan, to what it keeps back, to its end."""

import pytest
from playwright.sync_api import Page, expect

from ops.screenshots import overflow
from tests.browser.running_console import RunningConsole
from tests.browser.test_accessibility import dark_violations, violations

pytestmark = pytest.mark.browser


def test_a_silence_is_looked_at_made_and_ended_without_a_mouse(
    page: Page, own_console: RunningConsole
) -> None:
    url = own_console.url
    page.goto(url)
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url(f"{url}/slo")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/slo/chat#*")
    page.wait_for_selector(".plot canvas")
    page.get_by_role("link", name="Silence", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/silences?deployment=chat")
    form = page.locator("details[open] form")
    expect(form.get_by_label("Deployment")).to_have_value("chat")
    form.get_by_label("For how long").focus()
    page.keyboard.type("30m")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("launch day")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/silences/plan")
    plan = page.get_by_role("region", name="what it would keep back")
    expect(plan).to_contain_text("chat interactive ttft")
    assert overflow(page) <= 0
    page.emulate_media(color_scheme="light")
    assert violations(page) == []
    assert dark_violations(page) == []
    plan.get_by_role("button", name="Silence them").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/silences")
    row = page.get_by_role("row").filter(has_text="launch day")
    row.locator("summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("calm again")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/silences")
    expect(page.locator("main")).to_contain_text("launch day; ended: calm again")


def test_what_would_silence_nothing_is_said_and_the_form_stays_as_it_was(
    page: Page, own_console: RunningConsole
) -> None:
    page.goto(f"{own_console.url}/silences")
    page.get_by_text("Plan maintenance").first.focus()
    page.keyboard.press("Enter")
    form = page.locator("details[open] form")
    form.get_by_label("Objective").fill("speed")
    form.get_by_label("For how long").fill("2h")
    form.get_by_label("Reason").fill("new disks")
    form.get_by_role("button").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("there is no 'speed'")
    expect(page.locator("details[open] form").get_by_label("Reason")).to_have_value("new disks")
    assert violations(page) == []
