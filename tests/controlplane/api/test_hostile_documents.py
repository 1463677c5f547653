"""Documents that somebody sends on purpose: a clear 4xx with the place, and nothing is stored."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.controlplane.config_server import ConfigServer, serve_config
from tests.controlplane.control_plane_server import serve_control_plane

TENANT = "apiVersion: pilothouse/v1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def tenant(name: str = "acme", spec: str = "{tier: gold}") -> str:
    return TENANT.format(name=name, spec=spec)


def laughs() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    return "\n".join(lines)


REFUSED = {
    "a bomb of aliases": laughs(),
    "a merge key": "base: &b {kind: Tenant}\n<<: *b\n",
    "nested lists": "a: " + "[" * 5000 + "]" * 5000,
    "nested mappings": tenant(spec="{tier: " * 500 + "x" + "}" * 500),
    "a huge integer": tenant(spec=f"{{tier: gold, records_content: {'9' * 5000}}}"),
    "a number that is none": tenant(spec="{tier: .nan}"),
    "NUL in a name": tenant('"a\\0b"'),
    "NUL in a value": tenant(spec='{tier: "a\\0b"}'),
    "a lone surrogate": tenant(spec='{tier: "\\ud800"}'),
    "a name from right to left": tenant('"\u202egold"'),
    "an emoji as a name": tenant("😀"),
    "a name that only looks like another": tenant('"асme"'),
    "a name of ten thousand letters": tenant("a" * 10_000),
    "a name with a path in it": tenant("../../etc/passwd"),
    "a name with markup in it": tenant("'<script>alert(1)</script>'"),
    "a tier of ten thousand letters": tenant(spec=f"{{tier: {'g' * 10_000}}}"),
    "the same key twice": tenant(spec="{tier: gold, tier: silver}"),
    "the same document twice": tenant() + "---\n" + tenant(),
    "another kind": tenant().replace("Tenant", "Secret"),
    "a kind that is a list": tenant().replace("kind: Tenant", "kind: [Tenant]"),
    "a document that is a list": "- kind: Tenant\n",
    "a document that is a number": "42",
    "a tag that runs code": "!!python/object/apply:os.system ['true']",
    "a control character": "kind: Tenant\x1b[2J",
    "binary": "\x00\x01\x02\x03",
    "more than a file may hold": "# " + "x" * 300_000,
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConfigServer]:
    with serve_config(tmp_path) as server:
        yield server


def apply(server: ConfigServer, text: str, **more: Any) -> httpx.Response:
    body = {"files": [{"name": "hostile.yaml", "text": text}], **more}
    # Written by hand: httpx refuses lone surrogates, and somebody else's client may not.
    content = json.dumps(body).encode("ascii")
    headers = {"content-type": "application/json"}
    return server.http.post("/api/v1/apply", content=content, headers=headers)


def stored(server: ConfigServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.http.get("/api/v1/config").json()
    return found


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_with_its_place_and_nothing_is_stored(
    server: ConfigServer, text: str
) -> None:
    answer = apply(server, text)
    assert answer.status_code == 422, answer.text
    problems = answer.json()["problems"]
    assert 1 <= len(problems) <= 5
    for problem in problems:
        assert problem["file"] == "hostile.yaml"
        assert problem["line"] >= 1
        assert problem["column"] >= 1
        assert 0 < len(problem["message"]) < 1000
    assert stored(server) == []
    assert server.announcements == []


def test_a_lone_surrogate_in_the_text_itself_is_refused(server: ConfigServer) -> None:
    answer = apply(server, "kind: Tenant\nmetadata: {name: \ud800}\nspec: {}\n")
    assert answer.status_code == 422, answer.text
    assert stored(server) == []


@pytest.mark.parametrize(
    "more",
    [
        {"reason": "a\0b"},
        {"author": "a\0b"},
        {"reason": "\ud800"},
        {"reason": "r" * 2000},
        {"author": "a" * 200},
        {"files": [{"name": "a\0b", "text": "kind: Nothing"}]},
        {"files": [{"name": "\ud800", "text": "kind: Nothing"}]},
        {"files": [{"name": "n" * 5000, "text": "kind: Nothing"}]},
        {"files": [{"name": "f", "text": ""}] * 500},
        {"files": []},
    ],
    ids=lambda more: json.dumps(more)[:40],
)
def test_what_stands_around_the_documents_is_bounded_too(
    server: ConfigServer, more: dict[str, Any]
) -> None:
    answer = apply(server, tenant(), **more)
    assert answer.status_code == 422, answer.text
    assert stored(server) == []


@pytest.mark.parametrize("text", ["\u202eabc", "😀 ok", "<script>alert(1)</script>", "\x1b[2J"])
def test_text_that_is_only_odd_stays_the_text_that_it_is(server: ConfigServer, text: str) -> None:
    answer = apply(server, tenant(), reason=text)
    assert answer.status_code == 200, answer.text
    (document,) = stored(server)
    assert document["reason"] == text


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/config/%00",
        "/api/v1/config/Tenant/a%00b",
        "/api/v1/requests/%00",
        "/api/v1/requests?tenant=a%00b",
        "/api/v1/audit?actor=%00",
        "/requests?tenant=%00",
    ],
)
def test_an_address_that_holds_nul_is_refused_before_any_database_sees_it(
    tmp_path: Path, path: str
) -> None:
    with serve_control_plane(tmp_path) as (url, _):
        answer = httpx.get(url + path)
    assert answer.status_code == 400, answer.text
    assert "U+0000" in answer.json()["detail"]
