"""Record what a running engine answers, for the tests that have none.

    python -m tests.peers.record_transcripts vllm http://127.0.0.1:8000 vllm-0.32.0

The questions are few and short, the answers are kept as they came. Of an OpenAPI document only the
two bodies that matter are kept, with a note that says so.
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

import httpx

from tests.endpoint_transcripts.exchange import Exchange, Transcript, write_transcript

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_OPENAPI = "/openapi.json"
_SECONDS = 120.0

_GETS = {
    "vllm": ("/version", "/v1/models", "/health", _OPENAPI, "/metrics"),
    "llamacpp": ("/props", "/v1/models", "/health", "/slots", "/metrics"),
}
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def chat(text: str, **more: Any) -> dict[str, Any]:
    """A streamed chat of one turn, as the adapters send it."""
    return {
        "model": "demo",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 12,
        "stream": True,
        "stream_options": {"include_usage": True},
        **more,
    }


def _posts(engine: str) -> list[tuple[str, dict[str, Any]]]:
    proof = {"model": "demo", "prompt": "1", "max_tokens": 1, "temperature": 0, "stream": False}
    answers: list[tuple[str, dict[str, Any]]] = [
        (COMPLETIONS, proof),
        (CHAT, chat("What is the capital of France?", max_tokens=40)),
        (CHAT, chat("Count to a hundred.", max_tokens=4)),
        (CHAT, chat("Say yes or no.", n=2, seed=3, temperature=1.0, max_tokens=3)),
        (CHAT, chat("Tell logprobs.", logprobs=True, top_logprobs=2, max_tokens=2)),
        (CHAT, chat("word " * 5000)),
        (CHAT, chat("Another model.", model="nobody")),
        (CHAT, chat("Too hot.", temperature=-1)),
        (COMPLETIONS, chat("") | {"prompt": "The sea is"}),
    ]
    for _, body in answers[-1:]:
        del body["messages"]
    turn = [{"role": "user", "content": "How long am I?"}]
    if engine == "vllm":
        return [
            *answers,
            (CHAT, chat("More than may queue.", n=64)),
            (CHAT, chat("Use a tool.", tools=[TOOL], tool_choice="auto")),
            ("/tokenize", {"model": "demo", "messages": turn}),
            ("/tokenize", {"model": "demo", "prompt": "How long am I?"}),
        ]
    return [
        *answers,
        ("/apply-template", {"messages": turn}),
        ("/tokenize", {"content": "How long am I?", "add_special": True}),
    ]


def record(engine: str, url: str, name: str) -> None:
    """Ask everything, and write it down as `name`."""
    # Connections are not used again: llama.cpp's server hangs up after an answer that it streamed.
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=url, timeout=_SECONDS, limits=limits) as http:
        posts = [_post(http, path, body) for path, body in _posts(engine)]
        gets = [_get(http, path) for path in _GETS[engine]]
        version = _version(engine, gets)
    source = f"recorded from a running server of {engine} {version} on a CPU"
    write_transcript(
        name,
        Transcript(engine=engine, version=version, source=source, exchanges=[*gets, *posts]),
    )


def _get(http: httpx.Client, path: str) -> Exchange:
    exchange = _exchange("GET", path, None, http.get(path))
    if path != _OPENAPI or exchange.status != httpx.codes.OK:
        return exchange
    return Exchange(
        method="GET",
        path=path,
        status=exchange.status,
        content_type=exchange.content_type,
        answer=json.dumps(_cut_openapi(json.loads(exchange.answer))),
        note="only the bodies of chats and completions, and of these only the fields' names",
    )


def _post(http: httpx.Client, path: str, body: dict[str, Any]) -> Exchange:
    return _exchange("POST", path, body, http.post(path, json=body))


def _exchange(
    method: str, path: str, body: dict[str, Any] | None, response: httpx.Response
) -> Exchange:
    content_type = response.headers.get("content-type", "")
    return Exchange(
        method=method,
        path=path,
        body=body,
        status=response.status_code,
        content_type=content_type,
        answer=response.text,
    )


def _cut_openapi(document: dict[str, Any]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for path in (CHAT, COMPLETIONS):
        content = document["paths"][path]["post"]["requestBody"]["content"]
        paths[path] = {"post": {"requestBody": {"content": content}}}
        name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        fields = document["components"]["schemas"][name]["properties"]
        schemas[name] = {"properties": {field: {} for field in fields}}
    return {"paths": paths, "components": {"schemas": schemas}}


def _version(engine: str, gets: Sequence[Exchange]) -> str:
    said = json.loads(gets[0].answer)
    return str(said["version"] if engine == "vllm" else said["build_info"])


def main() -> None:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=sorted(_GETS))
    parser.add_argument("url")
    parser.add_argument("name", help="of the transcript to write")
    arguments = parser.parse_args()
    record(arguments.engine, arguments.url, arguments.name)


if __name__ == "__main__":
    main()
