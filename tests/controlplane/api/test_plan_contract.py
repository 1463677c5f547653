"""A changed contract is not tried on a part of the traffic: a plan judges what was recorded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.store.connection import DatabaseKind
from dataplane.clock import wall_clock
from tests.controlplane.api.recorded_requests import record_requests
from tests.controlplane.api.test_plan import apply, plan
from tests.controlplane.config_documents import DESIGN_CONTRACT, SERVICE
from tests.controlplane.config_server import ConfigServer, serve_config
from tests.databases import Databases

NS = 10**9
STRICTER = DESIGN_CONTRACT.replace("300ms", "200ms")


@pytest.fixture
def server(databases: Databases, tmp_path: Path) -> Iterator[ConfigServer]:
    with serve_config(tmp_path, databases.open(DatabaseKind.CONFIG)) as server:
        apply(server, *SERVICE)
        yield server


def answered(age: int, ttft: float, **more: Any) -> dict[str, Any]:
    """One of the class that the contract is about, so many seconds ago."""
    return {
        "arrived_at_unix_ns": wall_clock() - age * NS,
        "request_class": "interactive",
        "contract_revision": "chat@1",
        "status_code": 200,
        "first_token": ttft - 0.01,
        "first_write": ttft,
        "last_write": ttft + 0.5,
        "ttft": ttft,
        "tpot": 0.02,
        "e2e": ttft + 0.5,
        "in_contract": ttft <= 0.3,
        **more,
    }


def impact(server: ConfigServer, contract: str) -> Any:
    [chat] = plan(server, contract)["deployments"]
    return chat["contract"]


def by_objective(found: Any) -> dict[str, Any]:
    return {each["objective"]: each for each in found["promises"]}


def test_one_threshold_is_judged_by_both_and_names_both_revisions(server: ConfigServer) -> None:
    late = [answered(60 + n, 0.25, tenant="acme") for n in range(20)]
    record_requests(server.request_db, *late, *(answered(90 + n, 0.1) for n in range(30)))
    found = impact(server, STRICTER)
    assert (found["before"], found["after"], found["num_replayed"]) == ("chat@1", "chat@2", 50)
    ttft = by_objective(found)["ttft"]
    assert [ttft[when]["at_most_seconds"] for when in ("before", "after")] == [0.3, 0.2]
    assert [ttft[when]["num_bad"] for when in ("before", "after")] == [0, 20]
    assert (ttft["num_newly_bad"], ttft["num_newly_good"]) == (20, 0)
    assert ttft["after"]["burn_rate"] == pytest.approx(40)
    assert (ttft["before"]["fired"], ttft["after"]["fired"]) == ([], ["page_quick"])
    assert "page_slow" in found["untold_grades"]
    tpot = by_objective(found)["tpot"]
    assert (tpot["before"]["num"], tpot["before"]["num_bad"], tpot["num_newly_bad"]) == (50, 0, 0)
    assert found["tenants"] == [{"tenant": "acme", "num_bad_before": 0, "num_bad_after": 20}]


def test_a_promise_that_comes_or_goes_is_told_with_what_it_would_have_been(
    server: ConfigServer,
) -> None:
    record_requests(server.request_db, answered(10, 0.1), answered(11, 2.0, e2e=2.5))
    other = DESIGN_CONTRACT.replace(
        "{signal: availability, for: 99.9%}", "{signal: e2e, at_most: 1s, for: 90%}"
    )
    found = by_objective(impact(server, other))
    assert (found["availability"]["after"], found["e2e"]["before"]) == (None, None)
    assert (found["e2e"]["after"]["num"], found["e2e"]["after"]["num_bad"]) == (2, 1)


def test_at_another_boundary_only_what_was_measured_there_is_told(server: ConfigServer) -> None:
    record_requests(server.request_db, *(answered(10 + n, 0.305) for n in range(4)))
    found = by_objective(impact(server, DESIGN_CONTRACT.replace("server", "engine")))
    ttft = found["ttft"]
    assert (ttft["before"]["num_bad"], ttft["after"]["num_bad"]) == (4, 0)
    assert ttft["after"]["num_unknown"] == 0
    for objective in ("tpot", "together"):
        after = found[objective]["after"]
        assert (after["num"], after["num_unknown"], after["burn_rate"]) == (0, 4, None)


def test_without_recorded_traffic_nothing_is_made_up(server: ConfigServer) -> None:
    found = impact(server, STRICTER)
    assert (found["num_recorded"], found["tenants"]) == (0, [])
    ttft = by_objective(found)["ttft"]
    assert (ttft["after"]["num"], ttft["after"]["burn_rate"]) == (0, None)


def test_other_changes_say_nothing_of_the_contract(server: ConfigServer) -> None:
    [chat] = plan(server, SERVICE[3].replace("64", "65"))["deployments"]
    assert chat["contract"] is None
