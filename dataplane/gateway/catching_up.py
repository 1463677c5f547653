"""What a gateway waits for before it takes another one's place: nobody may notice the change."""

import asyncio

import structlog

from dataplane.gateway.gateway import Gateway
from dataplane.gateway.handover import Grant, TakeoverError

_SNAPSHOT_SECONDS = 20.0
_REPLICA_SECONDS = 10.0
_TOKENIZER_SECONDS = 30.0
_LOOK_SECONDS = 0.02

_log = structlog.get_logger(__name__)


async def catch_up(gateway: Gateway, predecessor: Grant) -> None:
    """Return once `gateway` can do all that its predecessor can.

    Raises TakeoverError when it does not come to enforce as new a snapshot. A replica that it
    cannot reach may have just ended, and is not waited for for long.
    """
    if not await _until_enforced(gateway, predecessor.snapshot_version):
        raise TakeoverError(
            f"this gateway enforces snapshot {gateway.enforced.snapshot.version} and the one it "
            f"is to follow {predecessor.snapshot_version}, after {_SNAPSHOT_SECONDS:g} s "
            f"({gateway.snapshot_error or 'no newer one came'}): see whether the control plane "
            f"answers, and whether the plugins that it names are installed"
        )
    missing = await _until_connected(gateway, set(predecessor.replica_ids))
    if missing:
        _log.warning("taking over without some replicas", replica_ids=sorted(missing))
    await gateway.prompts.loaded(_TOKENIZER_SECONDS)


async def _until_enforced(gateway: Gateway, version: int) -> bool:
    try:
        async with asyncio.timeout(_SNAPSHOT_SECONDS):
            while gateway.enforced.snapshot.version < version:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        return False
    return True


async def _until_connected(gateway: Gateway, wanted: set[str]) -> set[str]:
    """Those that are still missing at the end; one that is wanted no more is none of them."""
    fleet = gateway.fleet
    try:
        async with asyncio.timeout(_REPLICA_SECONDS):
            while wanted & fleet.enforced() - fleet.connected():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        return wanted & fleet.enforced() - fleet.connected()
    return set()
