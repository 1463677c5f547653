"""Config pages: documents, their revisions, and what two of them differ in."""

import time

from fastapi import FastAPI
from fastapi.testclient import TestClient

from ops.seeded_console import seed
from tests.controlplane.console.reading import page


def test_without_documents_it_says_how_to_apply_some(client: TestClient) -> None:
    assert "No document was applied yet." in page(client, "/config")


def test_every_document_is_listed_under_its_kind(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=0)
    html = page(client, "/config")
    for path in ("deployment/summarize", "model/smollm2", "tenant/default", "slocontract/chat"):
        assert f'href="/config/{path}"' in html
    assert client.get("/config/nonsense").status_code == 404
    assert client.get("/config/model").headers["location"] == "/config#Models"


def test_a_document_says_who_changed_what_when_and_why_and_who_uses_it(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, time.time_ns(), num_requests=0)
    html = page(client, "/config/AdmissionPolicy/chat")
    assert "nobody waits five minutes for an answer" in html
    assert "<del>256</del> → <ins>64</ins>" in html
    assert 'href="/deployments/summarize"' in html
    assert "deadline: 10s" in html
    earlier = page(client, "/config/AdmissionPolicy/chat?number=1")
    assert "deadline: 5m" in earlier


def test_the_difference_can_be_read_in_both_directions(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=0)
    assert "2 places differ." in page(client, "/config/admissionpolicy/chat/diff")
    back = page(client, "/config/admissionpolicy/chat/diff?from=2&to=1")
    assert "this is what going back would change" in back
    assert "<del>64</del>" in back
    assert "compared with nothing" in page(client, "/config/model/smollm2/diff")
    assert "say the same" in page(client, "/config/model/smollm2/diff?from=1&to=1")


def test_what_does_not_exist_is_a_page_that_says_so(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=0)
    assert "There is no Model nobody." in page(client, "/config/model/nobody", 404)
    assert "chat@9" in page(client, "/config/admissionpolicy/chat?number=9", 404)
    assert "did you mean Model?" in page(client, "/config/modle/smollm2", 404)
    assert "no revision number" in page(client, "/config/model/smollm2?number=two", 422)
    assert "no revision number" in page(client, "/config/model/smollm2/diff?from=-1", 422)
