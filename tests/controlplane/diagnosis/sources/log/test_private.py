"""No secret and nobody's prompt is in what is kept of a log."""

import json

import pytest

from controlplane.diagnosis.sources.log import read_log
from controlplane.diagnosis.sources.log.private import without_private

SECRET = "hunter2-hunter2"
PROMPT = "why is it CUDA out of memory, and what is a \\'rate limit\\'"


@pytest.mark.parametrize(
    "line",
    [
        f"INFO 03-02 04:00:00 [utils.py:326] non-default args: {{'api_key': ['{SECRET}']}}",
        f"ERROR 03-02 04:00:00 [x.py:1] redis://user:{SECRET}@host:6379 connection refused",
        f"root 12 vllm serve m --api-key {SECRET}",
        f"authorization: Bearer {SECRET}",
        f"HF_TOKEN={SECRET}",
        f'{{"level": "info", "msg": "env AUTH_TOKEN={SECRET}"}}',
    ],
)
def test_secrets_are_masked(line: str) -> None:
    assert SECRET not in without_private(line)


@pytest.mark.parametrize(
    "line",
    [
        f"INFO 04:00:10 Received request c: prompt: '{PROMPT}', params: S(a=['{PROMPT}'])",
        f"DEBUG Request c-0 details: prompt: '{PROMPT}', prompt_token_ids: None",
        f"INFO Generated response c-0: output: '{PROMPT}', output_token_ids: [1]",
        f"Receive: obj=GenerateReqInput(rid='1', text='{PROMPT}', input_ids=None)",
        f"""Finish: obj=..., out={{'text': '{PROMPT}'}}""",
        f"""srv log: request: {{"messages":[{{"role":"user","content":"{PROMPT}"}}]}} 200""",
        f"POST {{'messages': [{{'role': 'user', 'content': '{PROMPT}'",
        json.dumps({"msg": f"Received request c: prompt: '{PROMPT}', params: x", "level": "info"}),
        json.dumps({"event": "asked", "body": {"prompt": [PROMPT, PROMPT], "n": 1}}),
    ],
)
def test_what_callers_wrote_and_got_is_left_out(line: str) -> None:
    assert "out of memory" not in without_private(line)


@pytest.mark.parametrize(
    "line",
    [
        "Prefill batch. #new-token: 8192, #cached-token: 0, token usage: 0.85, #queue-req: 3",
        "Avg prompt throughput: 120.0 tokens/s, Avg generation throughput: 240.0 tokens/s",
        "slot update_slots: id 0 | task 3 | new prompt, n_ctx_slot = 4096, n_prompt_tokens = 900",
        "prompt eval time = 100.0 ms / 10 tokens (10.0 ms per token, 100.0 tokens per second)",
        '{"error": {"message": "maximum context length is 4096 tokens", "code": 400}}',
    ],
)
def test_what_an_engine_says_stays(line: str) -> None:
    assert without_private(line) == line


@pytest.mark.parametrize(
    "before",
    ["completion: '", "completion='", '"completion": "', "completion = '", 'completion\\": \\"'],
)
def test_an_answer_is_left_out_and_the_path_that_ends_alike_stays(before: str) -> None:
    access = '10.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    assert without_private(access) == access
    assert "a poem" not in without_private(f"{before}a poem")


def test_a_json_record_without_its_prompt_is_a_record_still() -> None:
    line = json.dumps({"ts": "2026-03-02T04:00:00Z", "msg": "asked", "prompt": PROMPT, "n": 3})

    assert json.loads(without_private(line))["n"] == 3


def test_no_event_is_made_of_a_prompt_and_no_line_keeps_one() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    part = read_log(f"INFO 03-02 04:00:10 Received request c-0: prompt: '{oom}', params: S(n=1)")

    assert part.events == ()
    assert part.lines == ("INFO 03-02 04:00:10 Received request c-0: prompt: ...",)
