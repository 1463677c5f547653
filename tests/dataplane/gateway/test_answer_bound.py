"""All answers to one prompt are bounded together, and long ones are whole all the same."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from dataplane.engine import TokenLogprob
from dataplane.gateway.openai_api.documents import (
    ChatDocument,
    CompletionDocument,
    Document,
)
from dataplane.gateway.openai_api.errors import ApiRefusalError
from dataplane.gateway.openai_api.logprobs import chat_logprobs, completion_logprobs
from dataplane.gateway.openai_api.sampling import bound_answer
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    add_replica,
    deployment,
    running_gateway,
    say,
    snapshot,
)
from tests.dataplane.gateway.scripted_engine import BLIND

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


def chat(**fields: Any) -> Document:
    return ChatDocument.model_validate(say(**fields))


def test_what_fits_keeps_its_limit() -> None:
    assert bound_answer(chat(max_tokens=100), 100, 100) == 100
    assert bound_answer(chat(n=2, logprobs=True, top_logprobs=4, max_tokens=10), 10, 100) == 10


def test_a_limit_that_was_left_to_the_gateway_is_lowered() -> None:
    assert bound_answer(chat(), 5000, 100) == 100
    assert bound_answer(chat(n=2, logprobs=True, top_logprobs=4), 5000, 100) == 10


@pytest.mark.parametrize(
    ("document", "limit"),
    [
        (chat(max_tokens=101), 101),
        (chat(n=101), 1),
        (chat(n=2, logprobs=True, top_logprobs=4, max_tokens=11), 11),
        (
            CompletionDocument.model_validate(
                {"model": "m", "prompt": "x", "logprobs": 9, "max_tokens": 11}
            ),
            11,
        ),
    ],
)
def test_more_is_refused_with_the_parameters_that_make_it(document: Document, limit: int) -> None:
    with pytest.raises(ApiRefusalError) as caught:
        bound_answer(document, limit, 100)
    error = caught.value.error
    assert (error.status, error.code, error.param) == (400, "answer_too_large", "max_tokens")
    for word in ("'n'", "'max_tokens'", "logprobs'", "at most 100"):
        assert word in error.message


def test_logprobs_are_a_list_of_one_entry_a_token_however_many_there_are() -> None:
    entries = [TokenLogprob(token=f"t{n}", logprob=-n / 7, utf8=b"t", top=()) for n in range(1000)]
    told = json.decode(json.encode(chat_logprobs(entries)))
    assert [entry["token"] for entry in told["content"]] == [entry.token for entry in entries]
    columns = json.decode(json.encode(completion_logprobs(entries, 0)))
    assert [list(top) for top in columns["top_logprobs"]] == [[entry.token] for entry in entries]
    assert json.decode(json.encode(chat_logprobs([]))) == {"content": []}


async def test_a_long_answer_with_logprobs_is_whole(tmp_path: Path) -> None:
    add_replica("a", step_seconds=0.0, capabilities=BLIND)
    async with running_gateway(tmp_path, snapshot(deployment("a"))) as gateway:
        asked = say(n=4, max_tokens=250, logprobs=True, top_logprobs=2)
        answer = await gateway.http.post(CHAT, json=asked)
        assert answer.is_success
        for index, choice in enumerate(answer.json()["choices"]):
            content = choice["logprobs"]["content"]
            assert len(content) == 250 - index
            assert "".join(entry["token"] for entry in content) == choice["message"]["content"]
        await gateway.settle()


async def test_the_bound_is_a_setting_and_holds_for_every_answer(tmp_path: Path) -> None:
    replica = add_replica("a")
    async with running_gateway(
        tmp_path, snapshot(deployment("a")), max_answer_values=12
    ) as gateway:
        refused = await gateway.http.post(CHAT, json=say(n=2, max_tokens=7))
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "answer_too_large"
        assert (await gateway.http.post(CHAT, json=say(n=2))).is_success
        assert replica.submitted[-1].sampling.max_output_tokens == 6
        await gateway.settle()
