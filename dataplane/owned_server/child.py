"""The server's process group: a guard that leads it, the server, and what the server starts.

    replica --pipe--> guard (leader of the group)
       |                |  end of file: the replica is gone, however it went
       +--child--> server, and its own children: all in the guard's group

Whoever ends the replica with a signal that cannot be caught leaves the pipe without a writer, and
the guard kills its group, itself with it. A guard that ends first, by whatever hand, is told as an
end of the server: nothing would end it for us.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from types import TracebackType
from typing import Self

from dataplane.owned_server.listener import is_heard_by_group
from dataplane.owned_server.plan import ServerPlan

_GUARD = ("/bin/sh", "-c", "read -r _; kill -KILL 0")


class GuardEndedError(Exception):
    """The server would outlive us, so it must end now."""


class ServerChild:
    """A running server; leaving the context ends it and all that it started."""

    def __init__(self, plan: ServerPlan, grace_seconds: float) -> None:
        """`grace_seconds`: how long it may take to end after it was asked to."""
        self._plan = plan
        self._grace_seconds = grace_seconds
        self._guard: Process | None = None
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        """Raises OSError or ValueError when it cannot be started."""
        self._guard = await asyncio.create_subprocess_exec(
            *_GUARD, stdin=asyncio.subprocess.PIPE, process_group=0
        )
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._plan.argv,
                stdin=asyncio.subprocess.DEVNULL,
                env=dict(self._plan.environment),
                process_group=self._guard.pid,
            )
        except BaseException:  # a NUL in an argument, or a cancel: the guard must not stay
            await self._end_group()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), self._grace_seconds)
        await self._end_group()
        await process.wait()

    async def ended(self) -> int:
        """Its exit code, once it has ended; below 0 a signal's number. Raises GuardEndedError when
        its guard ends before it."""
        assert self._process is not None
        assert self._guard is not None
        server = asyncio.create_task(self._process.wait())
        guard = asyncio.create_task(self._guard.wait())
        try:
            await asyncio.wait({server, guard}, return_when=asyncio.FIRST_COMPLETED)
            if server.done():
                return server.result()
        finally:
            server.cancel()
            guard.cancel()
        raise GuardEndedError(f"the guard of the server ended, with {guard.result()}")

    def is_heard_on(self, port: int) -> bool | None:
        """It, with what it started, is all that listens there; None: this system does not tell."""
        assert self._guard is not None
        return is_heard_by_group(port, self._guard.pid)

    async def _end_group(self) -> None:
        """Also children that the server left behind."""
        guard = self._guard
        assert guard is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(guard.pid, signal.SIGKILL)
        await guard.wait()
