"""Every expression of every dashboard, asked of a real Prometheus that watches an installation
under load: one that is not understood, or that shows nothing, fails."""

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest

from tests.dashboards.grafana_variables import filled
from tests.dashboards.watched_installation import (
    CHANGED,
    DEPLOYMENT,
    Watched,
    load,
    watched_installation,
)
from tests.e2e.served import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

_PATIENCE_SECONDS = 120
_RANGE_SECONDS = 180

QUIET = {
    ("pilothouse-fleet", "Open incidents"),
    ("pilothouse-admission", "Without a valid key"),
    ("pilothouse-admission", "Replicas held back, and overrides"),
    ("pilothouse-admission", "Clients that read too slowly"),
    ("pilothouse-controlplane", "Deployments held"),
    ("pilothouse-controlplane", "Lost and refused"),
    ("pilothouse-controlplane", "What failed"),
    ("pilothouse-slo-simulated-chat", "Gateways with another revision"),
}
"""Panels of what does not happen here. They must show that it does not: a zero."""

Dashboards = Mapping[str, dict[str, Any]]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    with watched_installation(folder) as installation, load(installation.served):
        wait_for(lambda: _has_line(installation, 0.3), 30, "the first contract's line")
        installation.apply(folder / "documents", CHANGED)
        yield installation


def _has_line(watched: Watched, seconds: float) -> bool:
    expr = f'pilothouse_gateway_objective_at_most_seconds{{objective="ttft"}} == {seconds}'
    return bool(watched.ask("query", query=expr)["result"])


@pytest.fixture(scope="module")
def dashboards(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Dashboards:
    folder = tmp_path_factory.mktemp("made")
    watched.command("slo", "dashboards", "--out", str(folder))
    made = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {each["uid"]: each for each in made}


def panels(dashboards: Dashboards) -> Iterator[tuple[str, dict[str, Any]]]:
    for uid, dashboard in dashboards.items():
        yield from ((uid, panel) for panel in dashboard["panels"] if panel["type"] != "row")


def values_of(watched: Watched, target: Mapping[str, Any]) -> list[float]:
    """All that are numbers, of all series."""
    expr = filled(target["expr"])
    if target.get("instant"):
        found = watched.ask("query", query=expr)["result"]
        texts = [series["value"][1] for series in found]
    else:
        now = time.time()
        found = watched.ask("query_range", query=expr, start=now - _RANGE_SECONDS, end=now, step=1)[
            "result"
        ]
        texts = [text for series in found for _, text in series["values"]]
    return [value for value in map(float, texts) if math.isfinite(value)]


def wait_until_all(told: Mapping[Any, Callable[[], bool]]) -> list[Any]:
    """Those that were not true once within the time."""
    waiting = dict(told)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while waiting and time.monotonic() < deadline:
        waiting = {key: is_there for key, is_there in waiting.items() if not is_there()}
        time.sleep(0.5 if waiting else 0)
    return list(waiting)


def test_every_panel_shows_something(watched: Watched, dashboards: Dashboards) -> None:
    assert set(dashboards) == {
        *(f"pilothouse-{name}" for name in ("fleet", "deployment", "admission", "controlplane")),
        f"pilothouse-slo-{DEPLOYMENT}",
    }
    asked = {
        (uid, panel["title"], target["refId"]): target
        for uid, panel in panels(dashboards)
        for target in panel.get("targets", ())
    }
    assert len(asked) > 100

    def shows(target: Mapping[str, Any]) -> Callable[[], bool]:
        return lambda: bool(values_of(watched, target))

    missing = wait_until_all({key: shows(target) for key, target in asked.items()})
    assert not missing, missing


def test_what_is_driven_here_is_seen_and_what_is_not_is_zero(
    watched: Watched, dashboards: Dashboards
) -> None:
    """A zero that stands for a missing series must not hide a wrong name."""
    quiet: dict[tuple[str, ...], Any] = {}
    driven: dict[tuple[str, ...], Any] = {}
    for uid, panel in panels(dashboards):
        for target in panel.get("targets", ()):
            if "or on ()" in target["expr"]:
                key = (uid, panel["title"], target["refId"])
                (quiet if key[:2] in QUIET else driven)[key] = target
    assert {key[:2] for key in quiet} == QUIET
    assert {key[1] for key in driven} == {"Rejected on arrival", "Share of what was offered"}

    def is_seen(target: Mapping[str, Any]) -> Callable[[], bool]:
        return lambda: max(values_of(watched, target), default=0) > 0

    assert wait_until_all({key: is_seen(target) for key, target in driven.items()}) == []


def test_variables_offer_what_is_there(watched: Watched, dashboards: Dashboards) -> None:
    expected = {"deployment": {DEPLOYMENT}, "class": {"interactive"}, "boundary": {"server"}}
    for uid, dashboard in dashboards.items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                query = variable["query"]["query"]
                matched = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
                assert matched is not None, query
                selector, label = matched.groups()
                offered = watched.ask(f"label/{label}/values", **{"match[]": filled(selector)})
                assert expected[variable["name"]] <= set(offered), (uid, variable["name"])


def test_changes_are_marked(watched: Watched, dashboards: Dashboards) -> None:
    marks = {
        (uid, mark["name"]): mark
        for uid, dashboard in dashboards.items()
        for mark in dashboard["annotations"]["list"]
    }
    assert {name for _, name in marks} == {
        "Contract in force", "Replica started", "Snapshot enforced",
    }  # fmt: skip

    def is_marked(mark: Mapping[str, Any]) -> Callable[[], bool]:
        return lambda: bool(values_of(watched, mark))

    assert wait_until_all({key: is_marked(mark) for key, mark in marks.items()}) == []


def test_a_point_of_a_latency_leads_to_its_request(
    watched: Watched, dashboards: Dashboards
) -> None:
    exprs = {
        filled(target["expr"])
        for _, panel in panels(dashboards)
        for target in panel.get("targets", ())
        if target["exemplar"]
    }
    assert exprs

    def traces(expr: str) -> set[str]:
        now = time.time()
        found = watched.ask("query_exemplars", query=expr, start=now - _RANGE_SECONDS, end=now)
        return {each["labels"]["trace_id"] for series in found for each in series["exemplars"]}

    def has_traces(expr: str) -> Callable[[], bool]:
        return lambda: bool(traces(expr))

    assert wait_until_all({expr: has_traces(expr) for expr in exprs}) == []
    trace_id = sorted(traces(min(exprs)))[0]

    def shown() -> httpx.Response | None:
        url = f"{watched.served.url}/requests/{trace_id}"
        answer = httpx.get(url, follow_redirects=True, timeout=10)
        return answer if answer.status_code == 200 else None

    assert trace_id in wait_for(shown, 20, "the request's page").text


def test_a_changed_threshold_is_in_the_line_that_gateways_draw_and_in_the_one_that_is_made(
    watched: Watched, dashboards: Dashboards
) -> None:
    revision = f"{DEPLOYMENT}@2"
    [ttft] = [
        panel for uid, panel in panels(dashboards)
        if uid.startswith("pilothouse-slo-") and panel["title"].startswith("ttft")
    ]  # fmt: skip
    steps = ttft["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, 0.25]
    assert revision in dashboards[f"pilothouse-slo-{DEPLOYMENT}"]["description"]

    [drawn] = [
        panel for uid, panel in panels(dashboards)
        if uid == "pilothouse-deployment" and panel["title"] == "Time to first token"
    ]  # fmt: skip
    line = filled(drawn["targets"][-1]["expr"])

    def enforced() -> Any:
        found = watched.ask("query", query=line)["result"]
        return [
            (each["metric"]["contract_revision"], each["value"][1]) for each in found
        ] == [(revision, "0.25")]  # fmt: skip

    wait_for(enforced, 30, "gateways to draw the new line")
