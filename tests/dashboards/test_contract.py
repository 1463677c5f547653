"""The dashboard of a contract: lines and words come from one revision of its document."""

import json
from collections.abc import Sequence
from typing import Any

from controlplane.slo.prometheus.links import Links
from controlplane.slo.promised import promises_of
from dashboards.contract import Contracted
from dashboards.rendering import render_contracts
from dataplane.latency import Boundary
from tests.controlplane.slo.prometheus.promtool import contract

LINKS = Links(console_url="http://console:8700/")
TTFT = {"signal": "ttft", "at_most": "300ms", "for": "99%"}
AVAILABLE = {"signal": "availability", "for": "99.9%"}


def made(
    objectives: Sequence[dict[str, str]],
    revision: str = "chat@7",
    deployment: str = "chat",
    boundary: Boundary = Boundary.SERVER,
    *,
    is_observed_only: bool = False,
) -> dict[str, Any]:
    of = Contracted(
        promises=list(promises_of(deployment, revision, contract(objectives))),
        boundary=boundary,
        is_observed_only=is_observed_only,
    )
    [text] = render_contracts([of], LINKS).values()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def panel(dashboard: dict[str, Any], begins: str) -> dict[str, Any]:
    [found] = [each for each in dashboard["panels"] if each["title"].startswith(begins)]
    return dict(found)


def lines(found: dict[str, Any]) -> list[float]:
    steps = found["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return [step["value"] for step in steps if step["value"] is not None]


def test_a_percentile_is_the_one_that_is_promised_and_its_line_the_bound() -> None:
    ttft = panel(made([TTFT]), "ttft")
    assert lines(ttft) == [0.3]
    [target] = ttft["targets"]
    assert target["expr"].startswith("histogram_quantile(0.99, ")
    assert target["exemplar"] is True
    assert 'boundary="server"' in target["expr"]
    assert ttft["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "dashed"


def test_a_changed_threshold_changes_the_line_and_is_told_with_the_new_revision() -> None:
    before = made([TTFT, AVAILABLE])
    after = made([{**TTFT, "at_most": "250ms"}, AVAILABLE], revision="chat@8")
    assert lines(panel(before, "ttft")) == [0.3]
    assert lines(panel(after, "ttft")) == [0.25]
    assert after["uid"] == before["uid"]
    for dashboard, revision in ((before, "chat@7"), (after, "chat@8")):
        assert revision in dashboard["description"]
        assert revision in panel(dashboard, "What is promised")["options"]["content"]
        assert f'contract_revision!="{revision}"' in str(
            panel(dashboard, "Gateways with another")["targets"]
        )
    assert "chat@7" not in json.dumps(after)


def test_a_changed_target_moves_shares_and_which_alerts_have_a_line() -> None:
    strict, loose = made([TTFT]), made([{**TTFT, "for": "90%"}])
    assert lines(panel(strict, "Share that kept")) == [0.99]
    assert lines(panel(strict, "Burn rate")) == [1, 3, 6, 14.4]
    assert lines(panel(loose, "Share that kept")) == [0.9]
    # At 90 % no outage burns 14.4 times the budget.
    assert lines(panel(loose, "Burn rate")) == [1, 3, 6]


def test_what_no_histogram_tells_has_its_counts_alone() -> None:
    titles = [each["title"] for each in made([AVAILABLE])["panels"]]
    assert not [title for title in titles if title.startswith("availability")]
    assert {"Share that kept each objective, last hour", "Error budget left"} <= set(titles)


def test_of_an_engine_that_is_only_observed_nothing_is_asked_that_gateways_measure() -> None:
    seen, observed = made([TTFT]), made([TTFT], is_observed_only=True)
    assert "pilothouse_gateway_" in json.dumps(seen["panels"])
    assert "pilothouse_gateway_" not in json.dumps(observed["panels"])
    titles = {each["title"] for each in observed["panels"]}
    assert {
        "What is promised",
        "Share that kept each objective, last hour",
        "Error budget left",
    } <= titles


def test_it_is_read_at_the_boundary_of_the_contract() -> None:
    [target] = panel(made([TTFT], boundary=Boundary.ENGINE), "ttft")["targets"]
    assert 'boundary="engine"' in target["expr"]


def test_a_long_name_still_has_an_address_of_its_own() -> None:
    first, second = (made([TTFT], deployment="a" * 60 + end)["uid"] for end in "bc")
    assert first != second
    assert len(first) <= 40


def test_links_lead_into_the_console_once() -> None:
    urls = {link["title"]: link.get("url") for link in made([TTFT])["links"]}
    assert urls["Console"] == "http://console:8700/deployments/chat"
    assert urls["Runbooks"] == "http://console:8700/runbooks"
