"""What lies in `dashboards/generated/` is what the code makes, and fits Grafana's own types."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from controlplane.bundled import Bundled, locate
from controlplane.slo.prometheus.rules import RecordingRule, RuleGroup, render
from dashboards.__main__ import FOLDER, LINKS, rendered
from tests.controlplane.slo.prometheus.promtool import check
from tests.dashboards.grafana_variables import filled

FILES = sorted(path.name for path in FOLDER.glob("*.json"))
COLUMNS = 24
SECONDS = "s"


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def panels(name: str) -> Iterator[dict[str, Any]]:
    return (panel for panel in load(name)["panels"] if panel["type"] != "row")


def test_every_file_is_made_and_every_one_that_is_made_is_there() -> None:
    assert sorted(rendered()) == FILES
    assert len(FILES) == 5


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_as_it_would_be_made_now(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == rendered()[name], (
        "run `python -m dashboards`"
    )


@pytest.mark.parametrize("name", FILES)
def test_grafanas_types_read_it_and_lose_nothing(name: str) -> None:
    loaded = load(name)
    for mark in loaded["annotations"]["list"]:  # fields that the SDK does not have
        del mark["titleFormat"], mark["textFormat"]
    read = models.Dashboard.from_json(loaded)
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == loaded


@pytest.mark.parametrize("name", FILES)
def test_no_panel_covers_another_and_none_leaves_the_page(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load(name)["panels"]:
        place = panel["gridPos"]
        cells = set(
            itertools.product(
                range(place["x"], place["x"] + place["w"]),
                range(place["y"], place["y"] + place["h"]),
            )
        )
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < COLUMNS, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", FILES)
def test_panels_are_told_apart_and_say_what_they_show(name: str) -> None:
    loaded = load(name)
    ids = [panel["id"] for panel in loaded["panels"]]
    assert len(set(ids)) == len(ids)
    assert len(loaded["uid"]) <= 40
    for panel in panels(name):
        assert panel["title"]
        assert panel["description"].endswith(".")
        for target in panel.get("targets", ()):
            assert target["legendFormat"] or target["format"] == "table", panel["title"]
            assert target["datasource"]["uid"] == "${datasource}"


def test_prometheus_understands_every_expression(tmp_path: Path) -> None:
    targets = [t for name in FILES for panel in panels(name) for t in panel.get("targets", ())]
    marks = [mark for name in FILES for mark in load(name)["annotations"]["list"]]
    rules = [
        RecordingRule(record=f"asked:{at}", expr=filled(asked["expr"]))
        for at, asked in enumerate([*targets, *marks])
    ]
    group = RuleGroup(name="asked", interval_seconds=30, rules=rules)
    (tmp_path / "asked.yml").write_text(render([group], ["Made for a test."]))
    check(tmp_path, ["asked.yml"])


@pytest.mark.parametrize("name", FILES)
def test_no_latency_is_an_average(name: str) -> None:
    for panel in panels(name):
        if panel.get("fieldConfig", {}).get("defaults", {}).get("unit") == SECONDS:
            for target in panel["targets"]:
                assert "_sum{" not in target["expr"], panel["title"]
                assert "avg" not in target["expr"], panel["title"]


@pytest.mark.parametrize("name", FILES)
def test_ways_on_lead_to_runbooks_that_are_there(name: str) -> None:
    before = f"{LINKS.console_url}/runbooks/"
    urls = [link["url"] for panel in panels(name) for link in panel.get("links", ())]
    assert urls
    for url in urls:
        assert url.startswith(before)
        assert (locate(Bundled.RUNBOOKS) / f"{url.removeprefix(before)}.md").is_file(), url
    own = {link["title"]: link["url"] for link in load(name)["links"] if link["type"] == "link"}
    assert set(own) == {"Console", "Incidents", "Runbooks"}
    assert all(url.startswith(LINKS.console_url) for url in own.values())
