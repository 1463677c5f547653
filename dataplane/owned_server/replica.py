"""The life of one replica whose engine is somebody else's server.

The stages are those of any replica: `acquire` finds program and weights, `load` lasts until the
server says that it is well, `warm_up` until it has generated a token; only then does it serve. What
a server tells of `compile` is set apart from `load`; of one that tells nothing it is unobservable.
On
SIGTERM the server is left alone until what it runs has ended, or time is up: servers that are asked
to end with requests under way have been seen to leave them hanging.
"""

import asyncio
import logging
import os
import re
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dataplane.engine import EngineUnavailableError, ReplicaSpec
from dataplane.host.status import StatusFile
from dataplane.openai_endpoint.client import EndpointClient
from dataplane.owned_server.child import ServerChild
from dataplane.owned_server.plan import ServerPlan, free_port
from dataplane.owned_server.process import CreateClient

CreatePlan = Callable[[ReplicaSpec, int], ServerPlan]
"""For a port. Raises ValueError for settings that cannot be used, ProgramMissingError."""

_POLL_SECONDS = 0.2
_LAST_WORDS_BYTES = 4096
_LAST_WORDS_LINES = 3
_MAX_START_BYTES = 4 * 2**20
_HIDDEN = ("compile",)
"""What a server does unseen while it loads, unless it tells."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedServerSettings:
    """How patient it is."""

    drain_seconds: float
    """How long what runs may go on after SIGTERM."""
    grace_seconds: float
    """How long the server may then take to end."""


class ServerEndedError(Exception):
    """The server ended by itself."""


class PortTakenError(Exception):
    """Somebody else listens where the server should."""


async def run_replica(
    spec: ReplicaSpec,
    status: StatusFile,
    create_plan: CreatePlan,
    create_client: CreateClient,
    settings: OwnedServerSettings,
) -> int:
    """Returns the exit code: 0 after a drain, 1 when the server could not be started or ended."""
    stopping = _stopping()
    try:
        with status.stage("acquire"):
            _check_weights(spec.artifact)
            plan = create_plan(spec, free_port())
            client = create_client(spec, plan.address)
        try:
            async with ServerChild(plan, settings.grace_seconds) as server:
                await _until_stopped(status, plan, client, server, stopping)
                status.drain()
                await _until_idle(client, server, settings.drain_seconds)
        finally:
            await client.close()
        return 0
    except Exception as error:  # noqa: BLE001  (the process's edge: told by file and exit code)
        _log.exception("the replica failed")
        status.fail(_explain(error))
        return 1


def _stopping() -> asyncio.Event:
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, event.set)
    # Ctrl-C in a terminal reaches the whole group; whoever started us decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return event


def _check_weights(artifact: str) -> None:
    if not Path(artifact).exists():
        raise FileNotFoundError(f"{artifact} is not here: correct the Model, or bring it here")


async def _until_stopped(
    status: StatusFile,
    plan: ServerPlan,
    client: EndpointClient,
    server: ServerChild,
    stopping: asyncio.Event,
) -> None:
    """Start and serve. Raises ServerEndedError when the server ends by itself, PortTakenError and
    GuardEndedError."""
    told = asyncio.create_task(stopping.wait())
    ended = asyncio.create_task(server.ended())
    serving = asyncio.create_task(_serve(status, plan, client, server))
    try:
        await asyncio.wait({told, ended, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done() and serving.exception() is None:
            await asyncio.wait({told, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not told.done():
            raise ServerEndedError(f"the server {_how(ended.result())}")
        if serving.done():
            serving.result()
    finally:
        for task in (told, ended, serving):
            task.cancel()
        await asyncio.wait({told, ended, serving})


async def _serve(
    status: StatusFile, plan: ServerPlan, client: EndpointClient, server: ServerChild
) -> None:
    begins_at = _output_size()
    with status.stage("load"):
        await _until_well(client)
        _check_listener(server, plan.port)
    _set_apart_told(status, plan, begins_at)
    with status.stage("warm_up"):
        await _connect(client)
    status.serve(plan.address, plan.address)
    _log.info("serving on %s", plan.address)


def _set_apart_told(status: StatusFile, plan: ServerPlan, begins_at: int) -> None:
    """Stages that the server wrote of since its start; where several workers wrote of one that they
    went through side by side, the longest."""
    written = _output_since(begins_at)
    found = {
        stage: [float(match["seconds"]) for match in re.finditer(line, written)]
        for stage, line in plan.start_lines.items()
    }
    told = {stage: max(seconds) for stage, seconds in found.items() if seconds}
    for stage, seconds in told.items():
        status.set_apart(stage, seconds, "load")
    status.note_unobservable(*(stage for stage in _HIDDEN if stage not in told))


async def _until_well(client: EndpointClient) -> None:
    while True:
        if await client.is_well():
            return
        await asyncio.sleep(_POLL_SECONDS)


def _check_listener(server: ServerChild, port: int) -> None:
    if server.is_heard_on(port) is False:
        raise PortTakenError(
            f"what answers on port {port} is not the server that was started: another process took "
            f"the port first; the next attempt takes another port"
        )


async def _connect(client: EndpointClient) -> None:
    """A server may be well and not yet answer; whoever waits for us has a limit of its own."""
    while True:
        try:
            await client.connect()
        except EngineUnavailableError as error:
            _log.warning("not ready: %s", error.why)
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return


async def _until_idle(client: EndpointClient, server: ServerChild, seconds: float) -> None:
    """Until it says that nothing runs and nothing waits. One that tells neither is not waited
    for: gateways have let go of it before it is told to end."""
    ended = asyncio.create_task(server.ended())
    try:
        async with asyncio.timeout(seconds):
            while not ended.done() and await _is_busy(client):
                await asyncio.wait({ended}, timeout=_POLL_SECONDS)
    except TimeoutError:
        _log.warning("ending the server with requests under way, after %g s", seconds)
    finally:
        ended.cancel()
        await asyncio.wait({ended})


async def _is_busy(client: EndpointClient) -> bool:
    try:
        stats = await client.stats()
    except EngineUnavailableError:
        return False
    return (stats.num_running or 0) + (stats.num_waiting or 0) > 0


def _how(exit_code: int) -> str:
    how = (
        f"was ended by {signal.Signals(-exit_code).name}"
        if exit_code < 0
        else f"exited with code {exit_code}"
    )
    words = _last_words()
    return f"{how}; its last words: {words}" if words else how


def _last_words() -> str:
    """The end of what it printed, where our output, which is its own, is a file."""
    if not _is_output_kept():
        return ""
    lines = _output_since(max(0, _output_size() - _LAST_WORDS_BYTES)).splitlines()
    return " | ".join(line.strip() for line in lines[-_LAST_WORDS_LINES:] if line.strip())


def _is_output_kept() -> bool:
    return stat.S_ISREG(os.fstat(1).st_mode)


def _output_size() -> int:
    """Bytes of our output so far, which is the server's too; 0 where it is no file."""
    return os.fstat(1).st_size if _is_output_kept() else 0


def _output_since(begins_at: int) -> str:
    """What was written from there on, up to what a start may write."""
    if not _is_output_kept():
        return ""
    with Path("/proc/self/fd/1").open("rb") as log:
        log.seek(begins_at)
        return log.read(_MAX_START_BYTES).decode(errors="replace")


def _explain(error: Exception) -> str:
    return str(error) or type(error).__name__
