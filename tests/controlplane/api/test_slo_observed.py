"""Rules and standings of a deployment of which only the metrics of its engine are known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controlplane.api.slo_observed import seen_pages
from controlplane.operator.observed import ObservedState
from dataplane.access import Role
from tests.controlplane.api.test_scrape_targets import observed_replica
from tests.controlplane.config_documents import DESIGN_POLICY
from tests.controlplane.guarded_plane import GuardedPlane, guarded_plane
from tests.controlplane.specs.test_observed_contract import CONTRACT, DEPLOYMENT, ENGINE, MODEL

TTFT = "vllm:time_to_first_token_seconds"
OBJECTIVES = """\
        - {signal: ttft, at_most: 300ms, for: 99%}
        - {signal: availability, for: 99.9%}
"""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    contract = CONTRACT[: CONTRACT.index("        - {")] + OBJECTIVES
    with guarded_plane(tmp_path) as plane:
        texts = (MODEL, ENGINE, DESIGN_POLICY, DEPLOYMENT, contract)
        files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(texts)]
        admin = plane.bearing(plane.key(Role.ADMIN, name="root"))
        answer = admin.post("/api/v1/apply", json={"files": files, "reason": "for the test"})
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["warnings"]) == 2
        yield plane


@pytest.fixture
def viewer(plane: GuardedPlane) -> TestClient:
    return plane.bearing(plane.key(Role.VIEWER))


def rules(viewer: TestClient) -> dict[str, Any]:
    answer = viewer.get("/api/v1/slo/rules/seen")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_its_rules_count_by_the_engine_s_histogram_and_say_what_they_cannot(
    viewer: TestClient,
) -> None:
    found = rules(viewer)
    assert f'{TTFT}_bucket{{deployment="seen",le=~"0' in found["rules"]
    assert "objective: availability" not in found["rules"]
    assert len(found["left_out"]) == 2
    assert any("250ms" in sentence for sentence in found["left_out"])
    assert any("availability" in sentence for sentence in found["left_out"])


def test_edges_that_pages_showed_are_those_that_all_replicas_of_a_deployment_share() -> None:
    observed = ObservedState()
    observed.set_replicas(
        [
            observed_replica("seen-1", {TTFT: (0.1, 0.3)}),
            observed_replica("seen-2", {TTFT: (0.3, 0.5)}),
            observed_replica("seen-3", {}),  # it shows none yet
        ]
    )
    assert seen_pages(observed) == {"seen": {TTFT: (0.3,)}}


def test_its_standing_is_no_data_here_and_says_who_counts_it(viewer: TestClient) -> None:
    answer = viewer.get("/api/v1/slo").json()
    by_objective = {each["objective"]: each for each in answer["standings"]}
    assert {each["state"] for each in by_objective.values()} == {"no_data"}
    [counted, rescaled] = by_objective["ttft"]["notes"]
    assert "slo render" in counted
    assert "250ms" in rescaled
    assert len(by_objective["availability"]["notes"]) == 1
    assert {tuple(each["left_out"]) for each in by_objective.values()} == {()}


def test_its_page_says_who_counts_it_and_blames_no_gateway(viewer: TestClient) -> None:
    page = viewer.get("/slo/seen").text
    assert 'id="observed"' in page
    assert 'id="never"' not in page
    assert "2 are of engines that are only observed" in page
    assert "no gateway that serves" not in page
