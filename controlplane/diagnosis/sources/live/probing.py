"""One token, asked for with a deadline: whether the path that requests take is alive."""

import asyncio
import time

import httpx

from controlplane.diagnosis.sources.live.address import Address, beside

PROBE_KEY = "probe_one_token"
_SHOWN = 80


async def probe(
    http: httpx.AsyncClient, address: Address, model: str | None, deadline_seconds: float
) -> str:
    """`answered in 0.3 s`, `no answer in 20 s`, or the refusal."""
    body = {"prompt": "1 2 3", "max_tokens": 1, "temperature": 0}
    if model is not None:
        body["model"] = model
    began = time.monotonic()
    try:
        async with asyncio.timeout(deadline_seconds):
            response = await http.post(beside(address, "/v1/completions"), json=body, timeout=None)
    except TimeoutError:
        return f"no answer in {deadline_seconds:g} s"
    except httpx.HTTPError as error:
        return f"failed after {time.monotonic() - began:.1f} s ({type(error).__name__})"
    took = time.monotonic() - began
    if response.is_success:
        return f"answered in {took:.2g} s"
    why = " ".join(response.text.split())[:_SHOWN]
    return f"refused with {response.status_code} in {took:.2g} s: {why}"
