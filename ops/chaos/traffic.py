"""Callers that call again as soon as they are answered, each time as another session, and keep
their own account of every call."""

import asyncio
import json
import threading
from random import Random

from ops.chaos.documents import DEPLOYMENT, MOST_TOKENS
from ops.endurance.attempt import Attempt, Kind
from ops.endurance.client import Client

_THINK_SECONDS = 0.03
TENANT = "default"


class Traffic:
    """Runs in a thread of its own from `start` to `stop`."""

    def __init__(self, port: int, num_callers: int, seed: int) -> None:
        """`port` is the gateway's."""
        self.attempts: list[Attempt] = []
        """In the order in which they began; those that have ended have a time for that."""
        self.error: BaseException | None = None
        self._port = port
        self._num_callers = num_callers
        self._random = Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic")

    def start(self) -> None:
        """Begin to call."""
        self._thread.start()

    def stop(self) -> None:
        """Once every call has ended. Raises what a caller raised."""
        self._over.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    @property
    def is_alive(self) -> bool:
        """It calls."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._call_all())
        except BaseException as error:  # noqa: BLE001  # told to whoever stops it
            self.error = error

    async def _call_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._num_callers):
                group.create_task(self._call())

    async def _call(self) -> None:
        while not self._over.is_set():
            attempt = self._next()
            self.attempts.append(attempt)
            await Client(("127.0.0.1", self._port), attempt).carry_out()
            await asyncio.sleep(_THINK_SECONDS)

    def _next(self) -> Attempt:
        number = len(self.attempts)
        body = {
            "model": DEPLOYMENT,
            "prompt": "x" * 40,
            "max_tokens": MOST_TOKENS,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return Attempt(
            number=number,
            kind=Kind.STREAM,
            trace_id=f"{self._random.getrandbits(128):032x}",
            tenant=TENANT,
            body=json.dumps(body).encode(),
            is_stream=True,
            leaves_after_seconds=0.0,
            leaves_by_reset=False,
            headers={"x-session-id": f"s{number}"},
        )
