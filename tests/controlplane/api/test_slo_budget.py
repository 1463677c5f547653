"""How a deployment's error budgets went, as charts are drawn from it."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controlplane.slo.silences import SilenceKind, SilenceScope
from controlplane.store.counts import add_counts
from controlplane.store.request_rows import CountKey
from controlplane.store.silences import NewSilence, add_silence
from dataplane.access import Role
from tests.controlplane.guarded_plane import GuardedPlane, guarded_service

MINUTE, DAY = 60, 86400


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_service(tmp_path) as plane:
        yield plane


@pytest.fixture
def viewer(plane: GuardedPlane) -> TestClient:
    return plane.bearing(plane.key(Role.VIEWER))


def judge(plane: GuardedPlane, at_unix: int, good: int, total: int) -> None:
    names = (at_unix // MINUTE * MINUTE, "chat", "interactive", "acme", "chat@1")
    counts = {
        CountKey(*names, "objective.ttft.good"): good,
        CountKey(*names, "objective.ttft.total"): total,
    }
    with plane.app.state.request_db.session() as session:
        add_counts(session, counts)


def course(caller: TestClient, range_: str = "6h") -> dict[str, Any]:
    answer = caller.get("/api/v1/slo/budget/chat", params={"range": range_})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def left(found: dict[str, Any], name: str = "interactive.ttft") -> list[float | None]:
    (chart,) = [each for each in found["charts"] if each["name"] == name]
    values: list[float | None] = chart["lines"][0]["values"]
    return values


def test_the_budget_falls_where_it_is_spent_and_stays_where_it_is_not(
    plane: GuardedPlane, viewer: TestClient
) -> None:
    now = int(time.time())
    judge(plane, now - 2 * DAY, good=990, total=1000)  # all of 1 %
    judge(plane, now - 2 * 3600, good=990, total=1000)  # and once more, of twice as many
    judge(plane, now - 3600, good=0, total=20)
    found = course(viewer)
    values = left(found)
    assert values[0] == pytest.approx(0)
    assert values[-1] == pytest.approx(1 - (40 / 2020) / 0.01, rel=1e-5)
    assert len(set(values)) <= 3, "it changes in two steps of five minutes"
    assert len(values) == len(found["times_unix"])
    assert {late - early for early, late in pairwise(found["times_unix"])} == {300}
    assert found["contract_revision"] == "chat@1"


def test_what_is_a_period_old_comes_back(plane: GuardedPlane, viewer: TestClient) -> None:
    now = int(time.time())
    judge(plane, now - 30 * DAY - 3 * 3600, good=0, total=10)  # it leaves within the range
    judge(plane, now - 10 * DAY, good=990, total=990)
    values = left(course(viewer))
    assert values[0] == pytest.approx(0)
    assert values[-1] == 1.0


@pytest.mark.parametrize("range_", ["6h", "1d", "7d", "30d"])
def test_every_range_ends_with_what_is_left_now(
    plane: GuardedPlane, viewer: TestClient, range_: str
) -> None:
    now = int(time.time())
    judge(plane, now - 3 * DAY, good=97, total=100)
    judge(plane, now - 5 * 3600, good=98, total=100)
    assert left(course(viewer, range_))[-1] == pytest.approx(1 - (5 / 200) / 0.01)


def test_an_objective_that_judged_nothing_has_a_chart_and_no_figure(
    plane: GuardedPlane, viewer: TestClient
) -> None:
    judge(plane, int(time.time()) - 600, good=1, total=1)
    assert set(left(course(viewer), "interactive.tpot")) == {None}
    assert left(course(viewer))[-1] == 1.0


def test_maintenance_is_a_band_and_its_ends_are_marks(
    plane: GuardedPlane, viewer: TestClient
) -> None:
    judge(plane, int(time.time()) - 3 * 3600, good=99, total=100)
    before = left(course(viewer))[-1]
    began = (int(time.time()) - 4 * 3600) * 10**9
    window = NewSilence(
        kind=SilenceKind.MAINTENANCE,
        scope=SilenceScope(deployment="chat"),
        reason="new disks",
        seconds=7200,
    )
    with plane.app.state.config_db.session() as session:
        add_silence(session, window, actor="anna", clock=lambda: began)
    found = course(viewer)
    (band,) = found["bands"]
    assert (band["start_unix"], band["end_unix"]) == (began // 10**9, began // 10**9 + 7200)
    marks = [each["at_unix_ns"] for each in found["marks"] if each["kind"] == "silence"]
    assert marks == [began, began + 7200 * 10**9]
    assert left(found)[-1] == before, "what was spent in it stays spent"
    series = viewer.get("/api/v1/series?range=6h&deployment=chat").json()
    assert [each["at_unix_ns"] for each in series["marks"] if each["kind"] == "silence"] == marks
    assert series["bands"] == [band]


@pytest.mark.parametrize(
    ("path", "status"),
    [("budget/nobody", 404), ("budget/chat?range=1y", 422), ("budget/chat?range=", 422)],
)
def test_what_cannot_be_answered_is_refused(viewer: TestClient, path: str, status: int) -> None:
    assert viewer.get(f"/api/v1/slo/{path}").status_code == status
