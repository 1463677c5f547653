"""Rollouts in the console: where they are, what would happen, and what does."""

import re
import time

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ops.seeded_console import seed
from tests.controlplane.console.reading import page, words

ABORTED, PROMOTED, RUNNING = 1, 2, 3
"""Of the seeded console."""


@pytest.fixture
def seeded(app: FastAPI, client: TestClient) -> TestClient:
    seed(app, time.time_ns(), num_requests=0)
    return client


def lead(markup: str) -> str:
    found = re.search(r'<p class="lead">(.*?)</p>', markup, re.DOTALL)
    assert found is not None
    return words(found[1])


def state_of(client: TestClient, number: int) -> tuple[str, int]:
    line = client.get(f"/api/v1/rollouts/{number}").json()["rollout"]
    return line["state"], line["step"]


def buttons(markup: str) -> list[str]:
    return re.findall(r'name="ask" value="(\w+)"', markup)


def test_the_list_says_first_what_is_under_way(seeded: TestClient) -> None:
    markup = page(seeded, "/rollouts")
    assert lead(markup).startswith("1 rollout is under way")
    numbers = re.findall(r'<th scope="row"><a href="/rollouts/(\d+)">', markup)
    assert numbers == [str(RUNNING), str(PROMOTED), str(ABORTED)]
    assert "No rollout is under way." in page(seeded, "/rollouts?deployment=summarize")


def test_an_empty_house_has_a_list_too(client: TestClient) -> None:
    assert lead(page(client, "/rollouts")).startswith("No rollout is under way.")


def test_one_says_first_where_it_is_and_why(seeded: TestClient) -> None:
    assert lead(page(seeded, f"/rollouts/{RUNNING}")).startswith("Step 2 of 3: 25 %")
    assert lead(page(seeded, f"/rollouts/{PROMOTED}")).startswith("Promoted: chat runs")
    assert lead(page(seeded, f"/rollouts/{ABORTED}")).startswith("◆ aborted at step 1 of 3")


def test_its_step_is_marked_and_each_measure_is_drawn_and_told(seeded: TestClient) -> None:
    markup = page(seeded, f"/rollouts/{RUNNING}")
    assert markup.count('aria-current="step"') == 1
    assert markup.count('<svg class="apart') == 7
    assert re.search(r'aria-label="ttft: [+-][\d.]+ %, within [+-][\d.]+ to [+-][\d.]+ %', markup)
    told = page(seeded, f"/rollouts/{ABORTED}")
    assert "▲ worse" in told
    assert "Worse: attainment" in words(told)


def test_only_what_may_be_asked_has_a_button(seeded: TestClient) -> None:
    assert buttons(page(seeded, f"/rollouts/{RUNNING}")) == ["promote", "pause", "abort"]
    assert buttons(page(seeded, f"/rollouts/{PROMOTED}")) == []
    assert buttons(page(seeded, f"/rollouts/{ABORTED}")) == [], "a newer one has been"


def test_a_button_shows_what_would_happen_and_only_the_form_does_it(seeded: TestClient) -> None:
    path = f"/rollouts/{RUNNING}"
    plan = words(page(seeded, f"{path}?ask=promote").partition('<section class="plan"')[2])
    assert "25 % → 100 %" in plan
    assert state_of(seeded, RUNNING) == ("running", 2)
    form = {"asked": "promote", "step": "2", "reason": "looks well"}
    done = seeded.post(path, data=form)
    assert (done.status_code, done.headers["location"]) == (303, path)
    assert state_of(seeded, RUNNING) == ("running", 3)
    assert "looks well" in page(seeded, path)


def test_a_form_that_was_sent_twice_promotes_once(seeded: TestClient) -> None:
    form = {"asked": "promote", "step": "2", "reason": "looks well"}
    assert seeded.post(f"/rollouts/{RUNNING}", data=form).status_code == 303
    again = seeded.post(f"/rollouts/{RUNNING}", data=form)
    assert again.status_code == 422
    assert 'role="alert"' in again.text
    assert state_of(seeded, RUNNING) == ("running", 3)


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"asked": "abort", "step": "2", "reason": "  "}, 422),
        ({"asked": "resume", "step": "2", "reason": "x"}, 422),
        ({"asked": "smash", "step": "2", "reason": "x"}, 422),
        ({"asked": "abort", "reason": "x"}, 422),
    ],
)
def test_what_cannot_be_meant_changes_nothing(
    seeded: TestClient, form: dict[str, str], status: int
) -> None:
    assert seeded.post(f"/rollouts/{RUNNING}", data=form).status_code == status
    assert state_of(seeded, RUNNING) == ("running", 2)


@pytest.mark.parametrize("path", ["/rollouts/99", "/rollouts/99?ask=abort"])
def test_one_that_there_is_not_is_said_so(seeded: TestClient, path: str) -> None:
    assert "There is no rollout 99" in page(seeded, path, 404)


@pytest.mark.parametrize("asked", ["resume", "smash"])
def test_what_cannot_be_asked_of_it_is_said_so(seeded: TestClient, asked: str) -> None:
    assert asked in page(seeded, f"/rollouts/{RUNNING}?ask={asked}", 422)


def test_its_deployment_leads_to_it(seeded: TestClient) -> None:
    markup = page(seeded, "/deployments/chat")
    remark = markup.partition('id="rollout"')[2].partition("</p>")[0]
    assert f'href="/rollouts/{RUNNING}"' in remark
    assert "step 2 of 3" in remark
    assert 'id="rollout"' not in page(seeded, "/deployments/summarize")


def test_it_is_frozen_and_forced_from_the_console(app: FastAPI, seeded: TestClient) -> None:
    form = {"deployment": "chat", "lasts": "1h", "reason": "the sale"}
    for extra in ({"kind": "freeze"}, {"kind": "force_arm", "arm": "stable"}):
        assert seeded.post("/break-glass", data=form | extra).status_code == 303, extra
    markup = page(seeded, f"/rollouts/{RUNNING}")
    assert buttons(markup) == ["pause", "abort"]
    told = words(markup.partition("<main")[2])
    assert "◆ frozen" in told
    assert "◆ forced" in told
    assert "no part in it" in words(page(seeded, "/break-glass"))
    wrong = seeded.post("/break-glass", data=form | {"kind": "force_arm"})
    assert (wrong.status_code, "Arm: say which" in wrong.text) == (422, True)


def test_hostile_reasons_stay_text(seeded: TestClient) -> None:
    hostile = "<script>alert(1)</script>"
    form = {"asked": "pause", "step": "2", "reason": hostile}
    assert seeded.post(f"/rollouts/{RUNNING}", data=form).status_code == 303
    for path in (f"/rollouts/{RUNNING}", "/rollouts", "/deployments/chat"):
        markup = page(seeded, path)
        assert hostile not in markup, path
        assert "&lt;script&gt;" in markup, path
