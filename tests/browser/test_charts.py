"""Charts over time: drawn under the strict policy, with gaps, in both themes, and as numbers."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.running_console import RunningConsole

pytestmark = pytest.mark.browser

_COLOURS = """canvas => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] === 255) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
  return [...seen];
}"""


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def page(browser: Browser, console: RunningConsole, said: list[str]) -> Iterator[Page]:
    opened = browser.new_page(base_url=console.url, viewport={"width": 1280, "height": 900})
    opened.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    opened.on("pageerror", lambda error: said.append(str(error)))
    yield opened
    opened.close()


def test_every_chart_is_drawn_and_the_policy_forbids_nothing_of_it(
    page: Page, said: list[str]
) -> None:
    page.goto("/deployments/chat")
    page.wait_for_selector(".plot canvas")
    assert page.locator(".plot").count() == 5
    assert page.locator(".plot canvas").count() == 5
    assert said == []


def test_the_lines_follow_the_theme(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/deployments/chat")
    canvas = page.locator(".plot canvas").first
    canvas.wait_for()
    light = set(canvas.evaluate(_COLOURS))
    assert "11,92,173" in light, "the accent of the light theme"
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(200)
    assert "109,179,242" in set(canvas.evaluate(_COLOURS)), "the accent of the dark theme"


def test_a_chart_is_as_wide_as_there_is_room(page: Page) -> None:
    page.goto("/deployments/chat")
    canvas = page.locator(".plot .uplot").first
    canvas.wait_for()
    wide = canvas.evaluate("each => each.clientWidth")
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_timeout(300)
    assert canvas.evaluate("each => each.clientWidth") < wide
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_numbers_behind_a_chart_say_unknown_where_nobody_knows(page: Page) -> None:
    page.goto("/deployments/chat")
    page.get_by_text("Load as numbers").click()
    table = page.get_by_role("region", name="Load as numbers")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(60)
    minutes = ["unknown" in text for text in rows.all_inner_texts()]
    heard = [place for place, is_unknown in enumerate(minutes) if not is_unknown]
    # No gateway runs, so each minute since the console was filled is unknown too.
    assert sum(minutes[heard[0] : heard[-1]]) == 7, "in which no gateway was heard"
    assert rows.filter(has_text="policy chat@1 → chat@2").count() == 1


def test_another_range_is_another_address(page: Page) -> None:
    page.goto("/deployments/chat")
    page.get_by_role("link", name="6h").click()
    page.wait_for_selector("text=6h until")
    assert "range=6h" in page.url


def test_a_bucket_under_way_is_told_from_a_whole_one(page: Page) -> None:
    page.goto("/deployments/chat?range=7d")
    page.get_by_text("Requests as numbers").click()
    names = page.get_by_role("region", name="Requests as numbers").locator("tbody th")
    series = page.request.get("/api/v1/series?range=7d").json()
    is_whole = series["last_step_seconds"] == series["step_seconds"]
    told = [place for place, name in enumerate(names.all_inner_texts()) if "min so far" in name]
    assert told == ([] if is_whole else [0]), "the newest comes first"


def test_a_series_that_cannot_be_read_says_so(page: Page) -> None:
    page.route(
        "**/api/v1/series?*",
        lambda route: route.fulfill(status=503, json={"detail": "the database did not answer"}),
    )
    page.goto("/deployments/chat")
    page.wait_for_selector("text=The charts cannot be read: the database did not answer")
