"""The gateway's tie to one replica: connect, keep watch, connect again, let go.

connecting --connect--> connected --stats fail, a request lost it--> connecting
     any --retire--> draining (nothing new) --nothing outstanding--> closed
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable

import structlog

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineCapabilities, EngineClient, EngineStats, EngineUnavailableError
from dataplane.engine_claims import find_impossible_stats
from dataplane.policy import ReplicaEndpoint
from dataplane.prefix_report import PrefixReport, PrefixReporter
from dataplane.report import ReplicaReport

TakePrefixes = Callable[["ReplicaLink", PrefixReport], bool]
"""False: what was told cannot be understood without all of it."""
CreateClient = Callable[[ReplicaEndpoint], EngineClient]
"""Raises ValueError for settings that the engine's client cannot use."""

_FIRST_BACKOFF_SECONDS = 0.1
_LAST_BACKOFF_SECONDS = 2.0
_POLL_SECONDS = 1.0
_DRAIN_POLL_SECONDS = 0.05
_MAX_TAKEN_BLOCKS = 2048
"""Of a prefix report at once: some milliseconds of the event loop."""

_log = structlog.get_logger(__name__)


class ReplicaLink:
    """One replica of the enforced snapshot, or one that is being let go.

    `on_change` is called whenever it becomes connected or ceases to be, `on_stats` with whatever
    it tells of itself. While `wants_prefixes`, an engine that tells what of prompts it can find
    again is followed, and `on_prefixes` called.
    """

    def __init__(
        self,
        deployment: str,
        lane: str,
        endpoint: ReplicaEndpoint,
        create_client: CreateClient,
        on_change: Callable[[], None],
        clock: MonotonicClock,
        on_stats: Callable[["ReplicaLink", EngineStats], None] = lambda link, stats: None,
        wants_prefixes: Callable[["ReplicaLink"], bool] = lambda link: False,
        on_prefixes: TakePrefixes = lambda link, report: True,
    ) -> None:
        self.deployment = deployment
        self.lane = lane
        """Whose queue it takes requests from: its deployment's, or a candidate's beside it."""
        self.endpoint = endpoint
        self.is_connected = False
        self.error: str | None = "not connected yet"
        self.not_believed: str | None = None
        """Why what it last told of itself cannot be, and is not used."""
        self.capabilities: EngineCapabilities | None = None
        """As last told; kept while the replica is away."""
        self._clock = clock
        self._stats: EngineStats | None = None
        self._told_at = 0.0
        self._create_client = create_client
        self._on_change = on_change
        self._on_stats = on_stats
        self._wants_prefixes = wants_prefixes
        self._on_prefixes = on_prefixes
        self._prefix_cursor: str | None = None
        self._client: EngineClient | None = None
        self._doubt = asyncio.Event()
        self._task = asyncio.create_task(self._keep_connected(), name=f"link {endpoint.replica_id}")
        self._task.add_done_callback(self._note_bug)

    @property
    def client(self) -> EngineClient | None:
        """The client to submit to, while connected."""
        return self._client if self.is_connected else None

    def report(self, num_outstanding: int, held_back: str | None = None) -> ReplicaReport:
        """This replica as the gateway sees it; `held_back` says why it is sent less than others."""
        return ReplicaReport(
            replica_id=self.endpoint.replica_id,
            is_connected=self.is_connected,
            num_outstanding=num_outstanding,
            error=self.error,
            stats=self._stats_now() if self.is_connected else None,
            held_back=held_back,
            not_believed=self.not_believed,
        )

    def _stats_now(self) -> EngineStats | None:
        """As last told, with the time that has passed since added to their age."""
        if self._stats is None:
            return None
        age_seconds = self._stats.age_seconds + self._clock() - self._told_at
        return dataclasses.replace(self._stats, age_seconds=age_seconds)

    def doubt(self, why: str) -> None:
        """A request lost the replica: send it nothing until it has answered again."""
        self._set_connected(False, why)
        self._doubt.set()

    async def retire(self, num_outstanding: Callable[[], int], timeout_seconds: float) -> None:
        """Let what runs on it finish within a bound, then close."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        for _ in iter(lambda: num_outstanding() > 0 and loop.time() < deadline, False):
            await asyncio.sleep(_DRAIN_POLL_SECONDS)
        await self.close()

    async def close(self) -> None:
        """Give the connection up at once."""
        self._task.cancel()
        await asyncio.wait({self._task})
        self._set_connected(False, "closed")
        await self._drop_client()

    async def _keep_connected(self) -> None:
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            if await self._connect():
                backoff = _FIRST_BACKOFF_SECONDS
                await self._watch()
            else:
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, _LAST_BACKOFF_SECONDS)

    async def _connect(self) -> bool:
        await self._drop_client()
        self._doubt.clear()
        self._prefix_cursor = None
        try:
            self._client = self._create_client(self.endpoint)
            await self._client.connect()
        except (EngineUnavailableError, ValueError) as error:
            self._set_connected(False, str(error))
            return False
        self.capabilities = self._client.capabilities
        self._set_connected(True, None)
        return True

    async def _watch(self) -> None:
        """Poll its stats until it fails to answer."""
        client = self._client
        assert client is not None
        while True:
            try:
                self._take_stats(await client.stats())
                await self._follow_prefixes(client)
            except EngineUnavailableError as error:
                self._set_connected(False, str(error))
                return
            self._doubt.clear()
            self._set_connected(True, None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._doubt.wait(), _POLL_SECONDS)

    def _take_stats(self, stats: EngineStats) -> None:
        """What cannot be is not used: what was known before grows old."""
        impossible = find_impossible_stats(stats)
        if impossible is not None and self.not_believed is None:
            _log.warning(
                "a replica tells what cannot be",
                replica_id=self.endpoint.replica_id,
                why=impossible,
            )
        self.not_believed = impossible
        if impossible is None:
            self._stats, self._told_at = stats, self._clock()
            self._on_stats(self, stats)

    async def _follow_prefixes(self, client: EngineClient) -> None:
        if not isinstance(client, PrefixReporter) or not self._wants_prefixes(self):
            return
        report = await client.cached_prefixes(self._prefix_cursor)
        if report is None:
            return
        self._prefix_cursor = report.cursor
        for part in report.parts(_MAX_TAKEN_BLOCKS):
            if not self._on_prefixes(self, part):
                self._prefix_cursor = None
                return
            await asyncio.sleep(0)  # streams go first

    async def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _note_bug(self, task: "asyncio.Task[None]") -> None:
        """An engine client that breaks its contract costs its own replica only, and says so."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._set_connected(False, f"its engine client failed: {error!r}")
            _log.error("engine client failed", replica_id=self.endpoint.replica_id, exc_info=error)

    def _set_connected(self, is_connected: bool, error: str | None) -> None:
        self.error = error
        if is_connected == self.is_connected:
            return
        self.is_connected = is_connected
        _log.info(
            "replica connected" if is_connected else "replica lost",
            replica_id=self.endpoint.replica_id,
            error=error,
        )
        self._on_change()
