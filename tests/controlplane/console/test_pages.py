"""The pages: what they say, and that nothing a caller chose is ever more than text."""

import hashlib
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.console.templating import STATIC_DIRECTORY
from dataplane.lifecycle import Delivery
from ops.sample_requests import KINDS, Sample, answered, inferred, lost, preempted, retried
from ops.seeded_console import seed, store
from ops.seeded_state import under_seeded_config
from tests.controlplane.console.reading import page

NOW_NS = time.time_ns()
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}"


class _Markup(HTMLParser):
    """Collects what a strict policy forbids, and where links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.forbidden: list[str] = []
        self.tags: list[str] = []
        self.links: set[str] = set()
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self._in_script = tag == "script"
        if tag == "style" or (tag == "script" and "src" not in given):
            self.forbidden.append(tag)
        self.forbidden += [name for name in given if name == "style" or name.startswith("on")]
        for name in ("href", "src"):
            url = given.get(name)
            if url:
                self.links.add(url)
                if not url.startswith(("/", "#")):
                    self.forbidden.append(url)

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.forbidden.append(f"script text {data[:20]}")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def sample(sequence: int = 0) -> Sample:
    return Sample(sequence=sequence, arrived_at_unix_ns=NOW_NS)


def parse(html: str) -> _Markup:
    markup = _Markup()
    markup.feed(html)
    return markup


def test_no_page_holds_inline_script_or_style_or_a_foreign_address(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, NOW_NS, num_requests=40)
    paths = ["/", "/requests", "/requests?tenant=nobody", "/requests/live", "/requests/none-such"]
    paths += ["/deployments", "/deployments/chat", "/deployments/summarize", "/config"]
    paths += ["/usage", "/usage?by=tenant&since=7d", "/usage?tenant=nobody", "/usage?by=nothing"]
    paths += ["/config/admissionpolicy/chat", "/config/admissionpolicy/chat/diff"]
    paths += [
        f"/requests/{make(sample(10_000 + n)).request_id}" for n, make in enumerate(KINDS.values())
    ]
    for path in paths:
        markup = parse(client.get(path).text)
        assert markup.forbidden == [], path
        assert markup.tags


def test_every_link_leads_somewhere(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=60)
    seen: set[str] = set()
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        if path in seen or path.startswith("#") or len(seen) > 120:
            continue
        seen.add(path)
        response = client.get(path)
        assert response.status_code == 200, path
        if response.headers["content-type"].startswith("text/html"):
            waiting += sorted(parse(response.text).links - seen)
    assert {"/", "/requests", "/deployments", "/config"} <= seen


def test_every_answer_carries_a_strict_policy(client: TestClient) -> None:
    for path in ("/", "/requests", "/static/console.css", "/api/v1/overview", "/no/such/page"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_hostile_text_stays_text_on_every_page(app: FastAPI, client: TestClient) -> None:
    record = replace(
        answered(sample()),
        request_id=HOSTILE[:60],
        tenant=HOSTILE,
        request_class=HOSTILE,
        deployment=HOSTILE,
        model_revision=HOSTILE,
        policy_revision=HOSTILE,
        replica_ids=(HOSTILE,),
        reason=HOSTILE,
    )
    store(app, [record])
    for path in (
        "/requests",
        f"/requests?tenant={quote(HOSTILE)}",
        f"/requests/{quote(record.request_id, safe='')}",
        f"/requests/{quote(HOSTILE + 'unknown', safe='')}",
    ):
        html = client.get(path).text
        assert "<script>alert" not in html, path
        assert "<img" not in html
        assert parse(html).forbidden == []
        assert "&lt;script&gt;" in html


def test_the_overview_says_first_that_all_is_well_and_since_when(
    app: FastAPI, client: TestClient
) -> None:
    now_ns = time.time_ns()
    seed(app, now_ns, num_requests=0, has_trouble=False)
    store(
        app,
        under_seeded_config(
            [answered(Sample(sequence=n, arrived_at_unix_ns=now_ns - n)) for n in range(400)]
        ),
    )
    lead = re.search(r'<p class="lead">(.*?)</p>', page(client, "/"), re.DOTALL)
    assert lead is not None
    assert lead[1].startswith("All is well since <time")


def test_the_overview_says_first_what_is_wrong(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=40)
    lead = re.search(r'<p class="lead">(.*?)</p>', page(client, "/"), re.DOTALL)
    assert lead is not None
    assert "▲ page" in lead[1]
    assert "summarize cannot answer" in lead[1]


def test_the_overview_calls_nothing_well_that_too_few_requests_speak_against(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, time.time_ns(), num_requests=0, has_trouble=False)
    html = page(client, "/")
    lead = re.search(r'<p class="lead">(.*?)</p>', html, re.DOTALL)
    assert lead is not None
    assert "All is well" not in html
    assert (said := re.search(r"\d+ judged: too few to tell", lead[1])) is not None
    assert re.search(rf'data-label="Attainment".*?{said[0]}', html)
    assert "○ no data</span></td>" in html


def test_an_empty_house_says_what_to_do_first(client: TestClient) -> None:
    assert "pilothouse apply" in page(client, "/")
    assert "No request has ended yet." in page(client, "/requests")


def test_filters_are_plain_links_and_keep_what_was_chosen(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=120)
    html = page(client, "/requests?disposition=error&limit=1")
    assert '<option value="error" selected>' in html
    older = re.search(r'href="(/requests\?[^"]*after=[^"]*)"', html)
    assert older is not None
    assert "disposition=error" in older[1]
    assert "sse-connect" not in page(client, older[1].replace("&amp;", "&"))


def test_a_wrong_filter_is_a_page_that_names_it(client: TestClient) -> None:
    html = page(client, "/requests?since=yesterday", 422)
    assert "since:" in html
    assert "30m" in html


def test_an_unknown_page_and_an_unknown_request_say_what_to_do(client: TestClient) -> None:
    assert "There is no such page." in page(client, "/nothing/here", 404)
    assert "may still be in flight" in page(client, "/requests/zzz", 404)


def test_the_api_answers_its_errors_as_json_even_to_browsers(client: TestClient) -> None:
    response = client.get("/api/v1/no-such-thing")
    assert response.status_code == 404
    assert response.json()["detail"]


def test_requests_are_found_by_the_objective_they_missed(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=200)
    listed = {
        signal: client.get(f"/api/v1/requests?missed={signal}&limit=500").json()["requests"]
        for signal in ("ttft", "tpot", "availability", "e2e")
    }
    slow = [each for each in listed["ttft"] if each["ttft_seconds"] is not None]
    assert slow
    assert all(each["ttft_seconds"] > 0.3 for each in slow)
    assert {each["disposition"] for each in listed["availability"]} <= {
        "error", "lost", "deadline", "shed", "rejected",
    }  # fmt: skip
    assert listed["availability"]
    assert listed["tpot"] == listed["e2e"] == [], "nobody was that slow, and nothing is promised"
    assert "No request matches." in page(client, "/requests?missed=e2e")
    assert "missed:" in page(client, "/requests?missed=itl", 422)


def test_a_range_of_time_is_kept_in_the_address(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=200)
    html = page(client, "/requests?since=20m&until=10m&limit=5")
    assert 'name="since" value="20m"' in html
    assert "since=20m&amp;until=10m&amp;limit=5&amp;after=" in html
    times = [
        each["arrived_at_unix_ns"]
        for each in client.get("/api/v1/requests?since=20m&until=10m&limit=500").json()["requests"]
    ]
    assert times
    assert 9.9 * 60e9 < time.time_ns() - max(times) < time.time_ns() - min(times) < 20.1 * 60e9


def test_a_database_that_does_not_answer_is_said_as_such(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=10)
    with app.state.request_db.session() as session:
        session.connection().exec_driver_sql("ALTER TABLE requests RENAME TO elsewhere")
    html = page(client, "/requests", 503)
    assert "The control plane&#39;s database does not answer" in html
    assert "Gateways serve on meanwhile." in html
    assert client.get("/api/v1/requests").status_code == 503
    assert client.get("/api/v1/requests").headers["content-type"] == "application/json"


def test_in_flight_requests_are_filtered_as_the_list_is(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=0)
    html = page(client, "/requests?tenant=acme&disposition=error")
    assert 'hx-get="/requests/live?tenant=acme"' in html
    assert "its requests in flight are unknown" in page(client, "/requests/live?tenant=acme")


def test_a_typed_id_leads_to_its_page_without_script(app: FastAPI, client: TestClient) -> None:
    response = client.get("/requests/?id=%20abc/def%20")
    assert response.status_code == 303
    assert response.headers["location"] == "/requests/abc%2Fdef"


def test_an_inferred_phase_is_drawn_dashed_and_called_so(app: FastAPI, client: TestClient) -> None:
    record = inferred(sample())
    store(app, [record])
    html = page(client, f"/requests/{record.request_id}")
    assert 'class="bar p-prefill inferred"' in html
    assert "Cleanup is unobservable here" in html
    assert 'class="bar p-cleanup' not in html


def test_a_preemption_is_a_hatched_gap_with_its_reason(app: FastAPI, client: TestClient) -> None:
    record = preempted(sample())
    store(app, [record])
    html = page(client, f"/requests/{record.request_id}")
    assert html.count('class="gap"') == 1
    assert "no free block for an older request" in html


def test_both_attempts_of_a_retry_are_told(app: FastAPI, client: TestClient) -> None:
    record = retried(sample())
    store(app, [record])
    html = page(client, f"/requests/{record.request_id}")
    assert "given up, tried elsewhere" in html
    assert html.index("chat-1</span>") < html.index("chat-2</span>")


def test_what_nobody_saw_of_a_lost_request_is_unknown(app: FastAPI, client: TestClient) -> None:
    record = replace(lost(sample()), delivery=Delivery.PARTIAL)
    store(app, [record])
    html = page(client, f"/requests/{record.request_id}") + page(client, "/requests")
    for claim in ("never reached", "never scheduled", "no token", "no first token", "held nothing"):
        assert claim not in html, claim
    assert "begun, how much is unknown" in html
    assert "whether and when work began there is unknown" in html
    assert ">–<" not in html.partition('id="sides"')[0]


def test_static_files_are_kept_for_ever_only_under_their_digest(client: TestClient) -> None:
    assert "immutable" in client.get("/static/console.css?v=1").headers["cache-control"]
    assert "cache-control" not in client.get("/static/console.css").headers
    assert client.get("/static/../pages.py").status_code == 404
    assert client.get("/static/%2e%2e/pages.py").status_code == 404


def test_vendored_files_are_the_ones_that_were_noted() -> None:
    vendored = STATIC_DIRECTORY / "vendor"
    noted = (vendored / "README.md").read_text()
    files = sorted(each for each in vendored.iterdir() if each.name != "README.md")
    assert sum(each.suffix == ".js" for each in files) == 3
    for file in files:
        row = next(line for line in noted.splitlines() if line.startswith(f"| {file.name} "))
        assert hashlib.sha256(file.read_bytes()).hexdigest() in row
