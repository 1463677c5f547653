"""What routing is told of a call: its work, its session, and the hashes of its prompt."""

import asyncio
from collections.abc import Mapping

from dataplane.gateway.prompts import CountedPrompt
from dataplane.routing.prompt_blocks import hash_blocks
from dataplane.routing.request import RoutingRequest
from dataplane.routing.router import Router

_MAX_HASHED_ON_LOOP = 4096
"""Tokens: some 130 blocks, a fraction of a millisecond."""


async def hash_prompt(router: Router, prompt: CountedPrompt, tenant: str) -> tuple[bytes, ...]:
    """The chained hashes of a prompt's blocks, where the routing policy asks for them and the
    tokens are known; of a long prompt, computed beside the event loop."""
    if not router.wants_prefixes or not prompt.token_ids:
        return ()
    if prompt.num_tokens <= _MAX_HASHED_ON_LOOP:
        return hash_blocks(prompt.token_ids, tenant)
    return await asyncio.to_thread(hash_blocks, prompt.token_ids, tenant)


def routing_request(
    router: Router,
    headers: Mapping[str, str],
    tenant: str,
    num_prompt_tokens: int,
    num_output_tokens: int,
    blocks: tuple[bytes, ...],
) -> RoutingRequest:
    """`headers` have names in lower case. Sessions of two tenants are two sessions, whatever they
    are called."""
    header = router.affinity_header
    session = None if header is None else headers.get(header)
    return RoutingRequest(
        num_prompt_tokens=num_prompt_tokens,
        num_output_tokens=num_output_tokens,
        blocks=blocks,
        affinity_key=f"{tenant}/{session}" if session else None,
    )
