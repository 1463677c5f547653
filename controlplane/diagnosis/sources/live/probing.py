"""One token, asked for with a deadline: whether the path that requests take is alive."""

import time

import httpx

from controlplane.diagnosis.sources.live.address import Address, beside
from controlplane.diagnosis.sources.live.page import PageError, get_answer

PROBE_KEY = "probe_one_token"
_SHOWN = 80
_MAX_BYTES = 2**20


async def probe(
    http: httpx.AsyncClient, address: Address, model: str | None, deadline_seconds: float
) -> str:
    """`answered in 0.3 s`, `no answer in 20 s`, or the refusal."""
    body = {"prompt": "1 2 3", "max_tokens": 1, "temperature": 0}
    if model is not None:
        body["model"] = model
    request = http.build_request("POST", beside(address, "/v1/completions"), json=body)
    began = time.monotonic()
    try:
        answer = await get_answer(http, request, max_bytes=_MAX_BYTES, seconds=deadline_seconds)
    except PageError as error:
        if isinstance(error.__cause__, TimeoutError):
            return f"no answer in {deadline_seconds:g} s"
        cause = type(error.__cause__ or error).__name__
        return f"failed after {time.monotonic() - began:.1f} s ({cause})"
    took = time.monotonic() - began
    if answer.is_success:
        return f"answered in {took:.2g} s"
    why = " ".join(answer.text.split())[:_SHOWN]
    return f"refused with {answer.status} in {took:.2g} s: {why}"
