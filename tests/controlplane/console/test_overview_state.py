"""A deployment's word on the overview follows what its callers get, and shows its figures."""

import re
import time
from collections.abc import Callable

from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api.overview import read_overview
from controlplane.api.overview_lines import DeploymentOverview
from controlplane.operator.observed import ObservedState
from dataplane.record import RequestRecord
from ops.sample_requests import answered, rejected
from ops.sample_story import Sample
from ops.seeded_console import seed, store
from ops.seeded_state import under_seeded_config
from tests.controlplane.console.reading import page


def _well(app: FastAPI) -> None:
    """All replicas are ready, no incident is open, and what was asked before went well."""
    seed(app, time.time_ns(), num_requests=0, has_trouble=False)
    _store(app, answered, 400, age_seconds=900, first=20_000)


def _store(
    app: FastAPI,
    kind: Callable[[Sample], RequestRecord],
    number: int,
    age_seconds: float,
    first: int,
) -> None:
    records = [
        kind(
            Sample(sequence=first + n, arrived_at_unix_ns=time.time_ns() - round(age_seconds * 1e9))
        )
        for n in range(number)
    ]
    store(app, under_seeded_config(records))


def _line(app: FastAPI, name: str = "chat") -> DeploymentOverview:
    state = app.state
    view = read_overview(state.config_db, state.request_db, state.observed, time.time_ns())
    return next(each for each in view.deployments if each.name == name)


def test_ready_replicas_that_reject_most_of_what_is_asked_are_a_page(
    app: FastAPI, client: TestClient
) -> None:
    _well(app)
    _store(app, rejected, 120, age_seconds=60, first=30_000)
    _store(app, answered, 20, age_seconds=60, first=40_000)
    line = _line(app)
    assert line.num_ready_replicas == line.num_desired_replicas
    assert line.state.word == "page"
    severities = {each.about: each.severity for each in line.state.parts}
    assert (severities["rejected"], severities["in_contract"]) == ("page", "page")
    assert (severities["replicas"], severities["incidents"]) == ("ok", "ok")
    cell = re.search(r'data-label="State" class="long">(.*?)</td>', page(client, "/"), re.DOTALL)
    assert cell is not None
    assert "▲ page" in cell[1]
    assert re.search(r"12\d of 15\d rejected, 5\smin", cell[1])


def test_what_went_well_lately_is_ok_with_its_figures(app: FastAPI) -> None:
    _well(app)
    _store(app, answered, 400, age_seconds=60, first=30_000)
    line = _line(app)
    assert line.state.word == "ok"
    figures = {each.about: each.figure for each in line.state.parts}
    assert figures["failed"].endswith("failed")
    assert figures["in_contract"].endswith("95 % promised")


def test_the_last_minutes_go_before_the_half_hour_they_are_part_of(app: FastAPI) -> None:
    _well(app)
    _store(app, rejected, 120, age_seconds=60, first=30_000)
    told = [each for each in _line(app).troubles if each.about == "in_contract"]
    assert [each.severity for each in told] == ["page"]
    assert told[0].window_seconds is not None
    assert told[0].window_seconds < 400


def test_without_a_gateway_that_reports_nothing_is_ok(app: FastAPI) -> None:
    _well(app)
    silent = ObservedState()
    silent.set_replicas(app.state.observed.replicas())
    app.state.observed = silent
    assert _line(app, "summarize").state.word == "no_data"
