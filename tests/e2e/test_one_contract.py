"""One document: where a threshold of it is changed and applied, the rule, the dashboard, the budget
and the gateway's judgement are of the new revision, and say so."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML

from dataplane import names
from tests.e2e.served import Served, start_serve, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NAME = "simulated-chat"
NUM_REQUESTS = 12
"""Of each revision; an alert needs ten."""
NEVER_SECONDS = 1e-6
CONTRACT = """
apiVersion: pilothouse/v1
kind: SLOContract
metadata: {{name: simulated-chat}}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives:
        - {{signal: ttft, at_most: {at_most}, for: {target}}}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("one-contract")
    started = start_serve(folder / "state", options=["--demo", "simulator"])
    try:
        started.wait_until_ready()
        yield started
    finally:
        status = started.stop()
    assert status == 0, started.log_path.read_text()


def pilothouse(served: Served, *arguments: str) -> str:
    """What a command prints; it must succeed."""
    argv = [sys.executable, "-m", "controlplane.cli", *arguments, "--url", served.url]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def put_in_force(served: Served, folder: Path, at_most: str, target: str = "99%") -> str:
    """Apply it. The revision that gateways enforce from then on, as `simulated-chat@2`."""
    path = folder / "contract.yaml"
    path.write_text(CONTRACT.format(at_most=at_most, target=target))
    before = enforced(served)
    pilothouse(served, "apply", "-f", str(path), "--reason", "a test")
    return str(wait_for(lambda: enforced(served) - before, 30, "gateways to follow").pop())


def enforced(served: Served) -> set[str]:
    """Revisions of the contract by which gateways judge, as their metrics tell."""
    text = httpx.get(f"{served.gateway_url}/metrics", timeout=10).text
    mark = f'{names.LABEL_CONTRACT_REVISION}="'
    lines = [
        line
        for line in text.splitlines()
        if line.startswith(names.GATEWAY_OBJECTIVE_AT_MOST_SECONDS) and mark in line
    ]
    return {line.partition(mark)[2].partition('"')[0] for line in lines}


def ask(served: Served) -> list[dict[str, Any]]:
    """So many requests, as they are on record."""
    ids = []
    for _ in range(NUM_REQUESTS):
        body = {"model": "bytes", "prompt": "Once", "max_tokens": 2}
        answer = httpx.post(f"{served.gateway_url}/v1/completions", json=body, timeout=60)
        answer.raise_for_status()
        ids.append(answer.headers["x-request-id"])

    def recorded() -> list[dict[str, Any]] | None:
        answers = [httpx.get(f"{served.url}/api/v1/requests/{each}", timeout=10) for each in ids]
        is_whole = all(each.status_code == 200 for each in answers)
        return [each.json() for each in answers] if is_whole else None

    found: list[dict[str, Any]] = wait_for(recorded, 30, "the records")
    return found


def standing(served: Served) -> dict[str, Any]:
    """Of the one promise."""
    (found,) = served.get("/api/v1/slo")["standings"]
    return dict(found)


def rules(served: Served) -> list[dict[str, Any]]:
    """Those that the contract makes for Prometheus."""
    groups = YAML(typ="safe").load(pilothouse(served, "slo", "render", NAME))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def burn_alerts(served: Served) -> list[dict[str, Any]]:
    return [each for each in rules(served) if each.get("alert") == "PilothouseBudgetBurn"]


def drawn(served: Served, folder: Path) -> dict[str, Any]:
    """The dashboard of the deployment under the contract."""
    folder.mkdir()
    pilothouse(served, "slo", "dashboards", NAME, "--out", str(folder))
    (path,) = folder.glob("*.json")
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def lines(dashboard: dict[str, Any], begins: str) -> list[float]:
    """What is drawn across the panel whose title begins so."""
    (panel,) = [each for each in dashboard["panels"] if each["title"].startswith(begins)]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return [step["value"] for step in steps if step["value"] is not None]


def check_surfaces(served: Served, folder: Path, revision: str, at_most: float) -> None:
    """All that is made of the contract is of this revision."""
    alerts = burn_alerts(served)
    assert alerts
    assert {each["annotations"]["contract_revision"] for each in alerts} == {revision}
    told = [each for each in rules(served) if each.get("record") == names.SLO_TARGET]
    assert [each["labels"][names.LABEL_CONTRACT_REVISION] for each in told] == [revision]
    dashboard = drawn(served, folder)
    assert revision in dashboard["description"]
    assert lines(dashboard, "ttft") == [pytest.approx(at_most)]
    now = standing(served)
    assert (now["contract_revision"], now["at_most_seconds"]) == (revision, at_most)
    assert enforced(served) == {revision}


def test_one_threshold_changes_rule_dashboard_budget_and_judgement(
    served: Served, tmp_path: Path
) -> None:
    loose = put_in_force(served, tmp_path, "30s")
    kept = ask(served)
    check_surfaces(served, tmp_path / "loose", loose, 30.0)
    assert {each["request"]["contract_revision"] for each in kept} == {loose}
    before = wait_for(lambda: _judged(served, NUM_REQUESTS), 30, "what was judged to be counted")
    assert before["num_good"] == NUM_REQUESTS
    assert before["state"] == "ok"

    strict = put_in_force(served, tmp_path, "0.001ms")
    missed = ask(served)
    check_surfaces(served, tmp_path / "strict", strict, NEVER_SECONDS)
    assert {each["request"]["contract_revision"] for each in missed} == {strict}
    after = wait_for(lambda: _judged(served, 2 * NUM_REQUESTS), 30, "the others to be counted")
    assert after["num_good"] == NUM_REQUESTS, "what was judged before stays judged"
    assert after["budget_remaining"] == pytest.approx(1 - 0.5 / 0.01)
    assert after["state"] == "breaching"
    assert {each["grade"] for each in after["firing"]} >= {"page_quick", "page_slow"}


def test_a_changed_target_moves_what_trips_an_alert_and_none_that_cannot_fire_is_left(
    served: Served, tmp_path: Path
) -> None:
    put_in_force(served, tmp_path, "31s", "99%")
    strict = {each["labels"]["grade"]: each["expr"] for each in burn_alerts(served)}
    revision = put_in_force(served, tmp_path, "32s", "90%")
    loose = {each["labels"]["grade"]: each["expr"] for each in burn_alerts(served)}
    assert "> 0.144" in strict["page_quick"]
    assert set(strict) - set(loose) == {"page_quick"}, "14.4 times a tenth is more than everything"
    assert "> 0.6" in loose["page_slow"]
    now = standing(served)
    assert now["contract_revision"] == revision
    assert any("page_quick" in sentence for sentence in now["left_out"])


def _judged(served: Served, number: int) -> dict[str, Any] | None:
    now = standing(served)
    return now if now["num_judged"] >= number else None
