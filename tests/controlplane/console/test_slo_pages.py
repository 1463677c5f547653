"""SLO pages: how promises stand, one deployment's budgets, and silences with their plan first."""

import time
from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api.slo import read_standing_list
from controlplane.api.slo_views import FiringView, StandingView
from controlplane.console.budget_bar import draw_budget, how_it_stands
from controlplane.console.slo_pages import urgency
from controlplane.store.counts import add_counts
from controlplane.store.request_rows import CountKey
from controlplane.store.silences import list_silences
from ops.seeded_budgets import store_budgets, store_silences
from ops.seeded_state import deploy, store_gauges
from tests.controlplane.console.reading import page, words

_FORM = {"deployment": "chat", "lasts": "2h", "reason": "anna is <b>on</b> it"}


@pytest.fixture
def seeded(app: FastAPI) -> FastAPI:
    """With a budget that burns now: a thousand bad ones in the last minutes."""
    now_ns = time.time_ns()
    deploy(app.state.config_db, now_ns, has_trouble=False)
    store_budgets(app.state.request_db, now_ns)
    store_silences(app.state.config_db, now_ns)
    store_gauges(app.state.request_db, now_ns)
    names = (now_ns // 10**9 // 60 * 60 - 60, "chat", "interactive", "acme", "chat@1")
    with app.state.request_db.session() as session:
        add_counts(session, {CountKey(*names, "objective.availability.total"): 1000})
    return app


def standing(app: FastAPI) -> StandingView:
    return read_standing_list(app.state, time.time_ns(), "chat").standings[0]


def num_silences(app: FastAPI) -> int:
    with app.state.config_db.reading() as session:
        return len(list_silences(session, 100))


def test_without_a_contract_nothing_is_promised(client: TestClient) -> None:
    said = words(page(client, "/slo"))
    assert "Nothing is promised: there is no deployment." in said
    assert "Nobody is told of an alert" in said


def test_the_list_has_every_promise_and_names_who_promises_nothing(
    seeded: FastAPI, client: TestClient
) -> None:
    html = page(client, "/slo")
    said = words(html)
    for objective in ("ttft", "tpot", "availability", "together"):
        assert f'href="/slo/chat#interactive-{objective}"' in html
    assert "12 d of 30 d counted" in said
    assert "Under no contract, so nothing is promised: summarize" in said
    assert "in maintenance" in said
    assert "silenced until" in said
    assert 'data-key="s"' in html


def test_the_page_of_a_deployment_leads_to_what_spent_its_budgets(
    seeded: FastAPI, client: TestClient
) -> None:
    html = page(client, "/slo/chat?range=7d")
    assert 'data-series="/api/v1/slo/budget/chat?range=7d"' in html
    assert (
        'href="/requests?deployment=chat&amp;class=interactive&amp;missed=ttft&amp;since=6h"'
        in html
    )
    assert 'href="/api/v1/slo/rules/chat"' in html
    assert 'href="/config/slocontract/chat?number=1"' in html
    assert 'href="/runbooks/budget-burn"' in html
    assert "Under no" not in words(html)
    assert "under no contract" in words(page(client, "/slo/summarize"))


@pytest.mark.parametrize(("path", "status"), [("/slo/nobody", 404), ("/slo/chat?range=1y", 422)])
def test_what_there_is_not_is_said(
    seeded: FastAPI, client: TestClient, path: str, status: int
) -> None:
    page(client, path, status)


def test_every_link_to_requests_can_be_followed(seeded: FastAPI, client: TestClient) -> None:
    html = page(client, "/slo/chat")
    links = [part.partition('"')[0] for part in html.split('href="')[1:]]
    to_requests = [each.replace("&amp;", "&") for each in links if "since=3d" in each]
    assert len(to_requests) >= 3
    for each in to_requests:
        page(client, each)


def test_a_bar_is_as_long_as_what_is_left_and_says_what_is_counted(seeded: FastAPI) -> None:
    found = replace(standing(seeded), budget_remaining=0.25, covered_seconds=6 * 86400.0)
    bar = draw_budget(found)
    assert bar is not None
    assert (bar.left, bar.covered, bar.is_overspent) == (25.0, 20.0, False)
    assert (bar.words, bar.covered_words) == (
        "25.0 % left; 6 d of 30 d counted",
        "6 d of 30 d counted",
    )
    over = draw_budget(replace(found, budget_remaining=-19.0, covered_seconds=30 * 86400.0))
    assert over is not None
    assert (over.left, over.is_overspent, over.words) == (0.0, True, "-1,900.0 % left")
    assert draw_budget(replace(found, budget_remaining=None)) is None


def test_a_budget_is_whole_in_words_only_where_nothing_is_missing(seeded: FastAPI) -> None:
    found = replace(standing(seeded), budget_remaining=0.9996, burns=[])
    assert how_it_stands(found) == "burns at an unknown rate over 1h, 99.96 % is left"
    assert how_it_stands(replace(found, budget_remaining=None)).endswith("what is left is unknown")


def test_pages_come_before_tickets_and_these_before_what_nobody_knows(seeded: FastAPI) -> None:
    calm = replace(standing(seeded), state="ok", firing=[], budget_remaining=0.5)
    firing = FiringView(
        grade="page_quick", severity="page", factor=14.4, long_burn_rate=20, short_burn_rate=20
    )
    paged = replace(calm, state="breaching", firing=[firing])
    ticketed = replace(paged, firing=[replace(firing, severity="ticket")])
    spent = replace(calm, state="breaching", budget_remaining=-1.0)
    unseen, nearly = replace(calm, state="no_data"), replace(calm, budget_remaining=0.1)
    ordered = [paged, ticketed, spent, unseen, nearly, calm]
    assert sorted([nearly, calm, spent, unseen, ticketed, paged], key=urgency) == ordered


def test_a_plan_is_shown_first_and_only_then_it_is_made(
    seeded: FastAPI, client: TestClient
) -> None:
    before = num_silences(seeded)
    shown = client.post("/silences/plan", data=_FORM | {"kind": "silence", "objective": "ttft"})
    assert shown.status_code == 200, shown.text
    said = words(shown.text)
    assert "Silence of chat, objective ttft: what it would keep back" in said
    assert "chat interactive ttft" in said
    assert 'value="anna is &lt;b&gt;on&lt;/b&gt; it"' in shown.text
    assert num_silences(seeded) == before
    made = client.post("/silences", data=_FORM | {"kind": "silence", "objective": "ttft"})
    assert (made.status_code, made.headers["location"]) == (303, "/silences")
    assert num_silences(seeded) == before + 1
    assert "chat, objective ttft" in words(page(client, "/silences"))


@pytest.mark.parametrize("path", ["/silences/plan", "/silences"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"objective": "speed"}, "there is no 'speed'"),
        ({"lasts": "25h"}, "at most 24h"),
        ({"lasts": "soon"}, "not a duration"),
        ({"deployment": ""}, "every deployment"),
        ({"kind": "maintenance", "begins": "noon"}, "2026-12-01T02:00"),
        ({"kind": "maintenance", "begins": "2020-01-01T00:00"}, "this is past"),
        ({"kind": "loud"}, "not a valid"),
    ],
)
def test_a_form_that_cannot_be_meant_comes_back_as_it_was_filled_in(
    seeded: FastAPI, client: TestClient, path: str, change: dict[str, str], why: str
) -> None:
    before = num_silences(seeded)
    refused = client.post(path, data={"kind": "silence"} | _FORM | change)
    assert refused.status_code == 422
    assert why in words(refused.text)
    assert num_silences(seeded) == before


def test_maintenance_of_everything_is_planned_and_called_off(
    seeded: FastAPI, client: TestClient
) -> None:
    form = _FORM | {"kind": "maintenance", "deployment": "*", "begins": "2199-01-01T02:00"}
    assert "at most 90d ahead" in words(client.post("/silences", data=form).text)
    assert client.post("/silences", data=form | {"begins": "+3h"}).status_code == 303
    planned = client.get("/api/v1/silences").json()["silences"][0]
    assert (planned["state"], planned["deployment"]) == ("planned", None)
    ended = client.post(
        "/silences/end", data={"silence_id": planned["silence_id"], "reason": "not today"}
    )
    assert ended.status_code == 303
    assert "called off before it began" in words(page(client, "/silences"))
    again = client.post(
        "/silences/end", data={"silence_id": planned["silence_id"], "reason": "not today"}
    )
    assert again.status_code == 422
