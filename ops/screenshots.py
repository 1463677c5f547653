"""Pictures of every console page, light and dark, wide and narrow.

    .venv/bin/python ops/screenshots.py --url http://127.0.0.1:8700 --out screenshots

Needs Debian's `chromium`. Of the requests, one of every disposition that the list holds is
taken. Exits 1, naming them, when a page scrolls sideways or logs an error.
"""

import argparse
import json
import shutil
import sys
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

WIDTHS = (1280, 390)
THEMES = ("light", "dark")
CHROMIUM_ARGUMENTS = (
    "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
    "--disable-background-networking", "--no-first-run",
)  # fmt: skip


def find_pages(url: str) -> dict[str, str]:
    """Paths by the name of the picture: every page, and every way it can look."""
    pages = {
        "overview": "/",
        "deployments": "/deployments",
        "config": "/config",
        "requests": "/requests",
        "requests-none": "/requests?tenant=nobody",
        "usage": "/usage",
        "usage-by-tenant": "/usage?by=tenant&since=7d",
        "usage-none": "/usage?tenant=nobody",
        "break-glass": "/break-glass",
        "rollouts": "/rollouts",
        "slo": "/slo",
        "silences": "/silences?deployment=chat",
        "incidents": "/incidents",
        "runbooks": "/runbooks/README",
        "runbook": "/runbooks/overload",
        "audit": "/audit",
        "access": "/access",
        "login": "/login",
        "not-found": "/requests/there-is-none",
        "wrong-filter": "/requests?since=yesterday",
    }
    return (
        pages
        | _incident_pages(url)
        | _rollout_pages(url)
        | _deployment_pages(url)
        | _config_pages(url)
        | _request_pages(url)
    )


def _incident_pages(url: str) -> dict[str, str]:
    """The newest that is open, and the newest that is over."""
    found = _read(url, "/api/v1/incidents")["incidents"]
    newest = {each["state"]: each["incident_id"] for each in reversed(found)}
    return {f"incident-{state}": f"/incidents/{its_id}" for state, its_id in newest.items()}


def _rollout_pages(url: str) -> dict[str, str]:
    """The newest of every state, and of one under way what each demand would do."""
    pages = {}
    for each in reversed(_read(url, "/api/v1/rollouts")["rollouts"]):
        path = f"/rollouts/{each['number']}"
        pages[f"rollout-{each['state']}"] = path
        for asked in _read(url, f"/api/v1{path}")["demands"]:
            pages[f"rollout-{each['state']}-{asked}"] = f"{path}?ask={asked}"
    return pages


def _deployment_pages(url: str) -> dict[str, str]:
    pages = {}
    for each in _read(url, "/api/v1/deployments")["deployments"]:
        path = f"/deployments/{quote(each['name'], safe='')}"
        pages[f"deployment-{each['name']}"] = path
        pages[f"deployment-{each['name']}-earlier"] = f"{path}?at=1h&range=6h"
        pages[f"slo-{each['name']}"] = f"/slo/{quote(each['name'], safe='')}?range=7d"
    return pages


def _config_pages(url: str) -> dict[str, str]:
    pages = {}
    for each in _read(url, "/api/v1/config"):
        path = f"/config/{each['kind'].lower()}/{quote(each['name'], safe='')}"
        pages[f"config-{each['kind'].lower()}-{each['name']}"] = path
        if each["number"] > 1:
            pages[f"diff-{each['kind'].lower()}-{each['name']}"] = f"{path}/diff"
    return pages


def _request_pages(url: str) -> dict[str, str]:
    pages = {}
    for each in reversed(_read(url, "/api/v1/requests?limit=500")["requests"]):
        kind = each["disposition"]
        if each["engine"] not in (None, "paged"):
            kind = f"{kind}-{each['engine']}"
        elif each["num_attempts"] > 1:
            kind = f"{kind}-retried"
        pages[f"request-{kind}"] = f"/requests/{quote(each['request_id'], safe='')}"
    return pages


def _read(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=10) as response:
        return json.load(response)


def take(browser: Browser, url: str, name: str, path: str, out: Path) -> list[str]:
    """Pictures of one page in every width and theme; returns what is wrong with it."""
    wrong = []
    for width in WIDTHS:
        for theme in THEMES:
            page = browser.new_page(
                viewport={"width": width, "height": 900}, color_scheme=_scheme(theme)
            )
            said: list[str] = []
            page.on("console", partial(_note_error, said))
            page.goto(url + path)
            page.wait_for_timeout(900 if page.locator("[data-series]").count() else 400)
            page.screenshot(path=out / f"{name}-{width}-{theme}.png", full_page=True)
            where = f"{path} at {width} px, {theme}"
            wrong += [f"{where}: {text}" for text in said if not is_expected(text)]
            if overflow(page) > 0:
                wrong.append(f"{where}: {overflow(page)} px wider than the screen")
            page.close()
    return wrong


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width


def is_expected(text: str) -> bool:
    """The browser's own line about a page that is an error page."""
    return "status of 404" in text or "status of 422" in text


def _note_error(said: list[str], message: ConsoleMessage) -> None:
    if message.type == "error":
        said.append(message.text)


def _scheme(theme: str) -> Literal["light", "dark"]:
    return "dark" if theme == "dark" else "light"


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--url", default="http://127.0.0.1:8700")
    parser.add_argument("--out", type=Path, default=Path("screenshots"))
    parser.add_argument("--only", default="", help="pictures whose name begins with this")
    arguments = parser.parse_args()
    url = arguments.url.rstrip("/")
    arguments.out.mkdir(parents=True, exist_ok=True)
    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(CHROMIUM_ARGUMENTS)
        )
        for name, path in find_pages(url).items():
            if not name.startswith(arguments.only):
                continue
            wrong += take(browser, url, name, path, arguments.out)
        browser.close()
    sys.stderr.writelines(line + "\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
