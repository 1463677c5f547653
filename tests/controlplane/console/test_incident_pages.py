"""Incident pages: what, since when, what changed before, who is hurt, what to do; and runbooks."""

import re
import time

from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.bundled import Bundled, locate
from controlplane.console.formatting import clock_time
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.store.incident import FoundFinding
from controlplane.store.incidents import resolve_incident, see_again
from ops.seeded_console import seed
from tests.controlplane.console.reading import page, words

NOW_NS = time.time_ns()


def newest(client: TestClient) -> str:
    incident_id: str = client.get("/api/v1/incidents").json()["incidents"][0]["incident_id"]
    return incident_id


def test_without_an_incident_the_list_says_so(client: TestClient) -> None:
    assert "No incident is open." in words(page(client, "/incidents"))


def test_the_list_has_what_is_open_and_what_was(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=0)
    said = words(page(client, "/incidents"))
    assert "1 incident is open." in said
    assert "cache.thrash Running requests are preempted" in said
    assert "Resolved the newest 1" in said
    assert "anna" in said


def test_one_answers_all_five_questions(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=0)
    html = page(client, f"/incidents/{newest(client)}")
    said = words(html)
    assert "◆ open Running requests are preempted or retracted" in said
    assert "The signal changed at" in said
    assert "Keep headroom at admission" in said
    assert "vllm:num_preemptions_total" in said
    assert "chat: policy chat@1 → chat@2 by ben" in said
    assert "interactive acme" in said
    assert 'href="/runbooks/cache-thrash"' in html
    assert "acknowledged anna fewer seats: trying 96" in said


def test_where_nothing_was_judged_nobody_is_said_to_be_unhurt(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, NOW_NS, num_requests=0)
    resolved = client.get("/api/v1/incidents?state=resolved").json()["incidents"][0]
    path = f"/incidents/{resolved['incident_id']}"
    assert client.get(f"/api/v1{path}").json()["num_judged"] == 0
    assert "○ unknown: no request was held against a contract" in words(page(client, path))


def test_what_is_said_of_it_stands_in_its_timeline(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=0)
    path = f"/incidents/{newest(client)}"
    same_site = {"origin": "http://127.0.0.1"}
    form = {"action": "note", "what": "<b>64 seats</b>"}
    answer = client.post(path, data=form, headers=same_site)
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert "&lt;b&gt;64 seats&lt;/b&gt;" in page(client, path)
    refused = client.post(path, data={"action": "smash", "what": "x"}, headers=same_site)
    assert refused.status_code == 422
    assert "none of acknowledge, note and resolve" in words(refused.text)


def test_an_unknown_incident_and_an_unknown_runbook_are_404_with_the_way_on(
    client: TestClient,
) -> None:
    assert "There is no incident" in words(page(client, "/incidents/none", 404))
    for name in ("none", "..%2f..%2fREADME", "Overload"):
        page(client, f"/runbooks/{name}", 404)


def test_every_runbook_is_a_page_and_links_to_others_lead_to_theirs(client: TestClient) -> None:
    names = [path.stem for path in locate(Bundled.RUNBOOKS).glob("*.md")]
    assert {"README", "overload"} <= set(names)
    for name in names:
        html = page(client, f"/runbooks/{name}")
        body = html.partition('<article class="prose">')[2]
        assert ".md" not in " ".join(re.findall(r'href="([^"]*)"', body)), name
        for linked in re.findall(r'href="/runbooks/([\w-]+)', body):
            assert linked in names, (name, linked)
    assert client.get("/runbooks").headers["location"] == "/runbooks/README"
    index = page(client, "/runbooks/README")
    assert "<table>" in index


def test_the_runbook_of_a_mechanism_is_named_after_it() -> None:
    assert Mechanism.HEALTHY.runbook is None
    assert Mechanism.OOM_PREFILL_TRANSIENT.runbook == "ops/runbooks/oom-prefill-transient.md"


def test_one_that_was_reopened_tells_since_when_it_is_back_and_when_it_was_before(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, NOW_NS, num_requests=0)
    known = newest(client)
    said_before = client.get(f"/api/v1/incidents/{known}").json()["findings"][0]
    words_of = ("rule_id", "mechanism", "confidence", "finding")
    found = FoundFinding(**{word: said_before[word] for word in words_of})
    with app.state.config_db.session() as session:
        resolve_incident(session, known, "it is over", NOW_NS)
        see_again(session, known, [found], NOW_NS + 90 * 10**9, NOW_NS + 60 * 10**9)
    first, last = client.get(f"/api/v1/incidents/{known}").json()["incident"]["spells"]
    assert last["since_unix_ns"] == NOW_NS + 60 * 10**9
    said = words(page(client, f"/incidents/{known}"))
    again = clock_time(last["since_unix_ns"], NOW_NS)
    assert f"The signal changed at {again}" in said
    before = [clock_time(first[each], NOW_NS) for each in ("since_unix_ns", "resolved_at_unix_ns")]
    assert f"reopened 1 time, open before from {before[0]} to {before[1]} UTC" in said
