"""All replicas of the enforced snapshot, and the queue of each deployment before them."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

import pluggy
import structlog

from dataplane import hooks
from dataplane.admission.deployment_admission import DeploymentAdmission
from dataplane.clock import MonotonicClock
from dataplane.enforced_snapshot import EnforcedSnapshot
from dataplane.engine import EngineCapabilities, EngineClient, EngineStats
from dataplane.engine_counting import CountsPrompts
from dataplane.gateway.openai_api.declared import EngineTakes
from dataplane.gateway.replica_link import ReplicaLink
from dataplane.gateway.routing_plugins import RoutingPlugins
from dataplane.gateway.slots_elsewhere import slots_elsewhere
from dataplane.leases.kv_reservation import sight_of
from dataplane.lifecycle import Disposition
from dataplane.plugins import PluginGroup, load_plugins
from dataplane.policy import DeploymentPolicy, ReplicaEndpoint, Snapshot
from dataplane.prefix_report import PrefixReport
from dataplane.queueing.queue import Departure, DeploymentQueue
from dataplane.report import ReplicaReport
from dataplane.routing import limit_slots
from dataplane.routing.ejection import EjectionStatus
from dataplane.routing.router import Router
from dataplane.shared_time import SharedTime

EXPIRE_SECONDS = 0.05
"""How often deadlines in queues are looked at."""

_CANDIDATE_LOST = Departure(
    disposition=Disposition.ERROR,
    reason="no replica of the candidate could be reached",
    is_unserved=True,
)
_log = structlog.get_logger(__name__)


class Fleet:
    """Engine clients by replica id, kept in line with the snapshot. One event loop owns it."""

    def __init__(
        self,
        clock: MonotonicClock,
        unserved_seconds: float,
        surplus_slots: int,
        drain_seconds: float,
    ) -> None:
        self.shared_time = SharedTime(clock)
        """Of replicas, among what this gateway has on them."""
        self.snapshot_version = 0
        """Of what is enforced."""
        self._clock = clock
        self._unserved_seconds = unserved_seconds
        self._surplus_slots = surplus_slots
        self._drain_seconds = drain_seconds
        self._lanes: dict[str, DeploymentPolicy] = {}
        self._deployment_of_lane: dict[str, str] = {}
        """Also of lanes that are gone, while somebody waits there."""
        self._links: dict[str, ReplicaLink] = {}
        self._retiring: dict[asyncio.Task[None], ReplicaLink] = {}
        self._queues: dict[str, DeploymentQueue] = {}
        self._admissions: dict[str, DeploymentAdmission] = {}
        self._held_elsewhere: Mapping[str, int] = {}
        self._plugins: pluggy.PluginManager | None = None
        self._engines: frozenset[str] = frozenset()
        """Those whose plugins are loaded."""
        self._routing = RoutingPlugins()
        self._expiry: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch the queues' deadlines."""
        self._expiry = asyncio.create_task(self._expire(), name="queue deadlines")

    def load_engines(self, snapshot: Snapshot) -> None:
        """Load the plugins that `snapshot` names. Raises PluginError for an engine's, and changes
        nothing."""
        engines = frozenset(r.engine for d in snapshot.lanes for r in d.replicas)
        if self._plugins is None or engines != self._engines:
            self._plugins = load_plugins(
                PluginGroup.GATEWAY, sorted(engines), hooks, project=hooks.PROJECT
            )
            self._engines = engines
        self._routing.load(snapshot)

    def enforce(self, enforced: EnforcedSnapshot) -> None:
        """Link new replicas, retire removed ones. Its engines are loaded already."""
        self.snapshot_version = enforced.snapshot.version
        self._lanes = {each.lane: each for each in enforced.snapshot.lanes}
        self._deployment_of_lane |= {each.lane: each.name for each in self._lanes.values()}
        wanted = {
            replica.replica_id: (each, replica)
            for each in self._lanes.values()
            for replica in each.replicas
        }
        for replica_id, link in list(self._links.items()):
            kept = wanted.get(replica_id)
            if kept is None or (kept[0].name, kept[1]) != (link.deployment, link.endpoint):
                self._retire(self._links.pop(replica_id))
            else:
                # Of a candidate that was promoted: it stays connected, and takes the requests of
                # the other lane from now on.
                link.lane = kept[0].lane
        for replica_id, (of, endpoint) in wanted.items():
            if replica_id not in self._links:
                self._links[replica_id] = ReplicaLink(
                    of.name,
                    of.lane,
                    endpoint,
                    self._create_client,
                    self._share_slots,
                    self._clock,
                    self._note_stats,
                    self._wants_prefixes,
                    self._note_prefixes,
                )
        for name, queue in self._queues.items():
            queue.router.set_routing(self._routing.of(name))
            if name in self._lanes:
                queue.keep_promises(self._lanes[name].policy)
        self._share_slots()

    def queue_of(self, lane: str) -> DeploymentQueue:
        """The queue of a deployment, or of a candidate beside it, made on first use."""
        queue = self._queues.get(lane)
        if queue is None:
            router = Router(
                self._clock,
                self._routing.of(lane),
                Random(),
                explains=True,
                on_change=lambda: self._note_ejections(lane),
            )
            queue = DeploymentQueue(self._clock, self._unserved_seconds, router)
            if lane in self._lanes:
                queue.keep_promises(self._lanes[lane].policy)
            self._queues[lane] = queue
            self._tell_replicas(lane, queue)
        return queue

    def admission_of(self, deployment: DeploymentPolicy) -> DeploymentAdmission:
        """The deployment's admission, in its arm, made on first use."""
        lane, name = deployment.lane, deployment.name
        admission = self._admissions.get(lane)
        if admission is None:
            beside = None
            if lane != name:
                beside = self._admissions.get(name) or self._open_admission(name, name, None)
            admission = self._open_admission(lane, name, beside)
        return admission

    def _open_admission(
        self, lane: str, name: str, beside: DeploymentAdmission | None
    ) -> DeploymentAdmission:
        admission = DeploymentAdmission(name, self.queue_of(lane), self._clock, beside)
        self._admissions[lane] = admission
        return admission

    def admissions(self) -> Iterable[DeploymentAdmission]:
        """Of every deployment that anybody asked for: of its arms, the one that keeps accounts."""
        return (each for each in self._admissions.values() if each.has_own_accounts)

    def is_reached(self, deployment: DeploymentPolicy) -> bool:
        """A replica of it, in its arm, can be sent requests now."""
        return any(link.is_connected for link in self._of_lane(deployment.lane))

    def find_client(self, replica_id: str) -> EngineClient | None:
        """The connected client of a replica, or None."""
        link = self._links.get(replica_id)
        return None if link is None else link.client

    def find_endpoint(self, replica_id: str) -> ReplicaEndpoint | None:
        """How a linked replica was told of, or None."""
        link = self._links.get(replica_id)
        return None if link is None else link.endpoint

    def doubt(self, replica_id: str, why: str) -> None:
        """A request lost this replica."""
        link = self._links.get(replica_id)
        if link is not None:
            link.doubt(why)

    def takes_of(self, deployment: DeploymentPolicy) -> EngineTakes:
        """The parameters that every replica of it takes."""
        told = [capabilities.parameters for capabilities in self._told(deployment.lane)]
        engines = sorted({replica.engine for replica in deployment.replicas})
        return EngineTakes(
            engine=" and ".join(engines),
            parameters=frozenset.intersection(*told) if told else None,
        )

    def max_model_len_of(self, deployment: DeploymentPolicy) -> int | None:
        """The least of what its document and its replicas say; None where none says."""
        lengths = [capabilities.max_model_len for capabilities in self._told(deployment.lane)]
        known = [length for length in (deployment.max_model_len, *lengths) if length is not None]
        return min(known, default=None)

    def needs_token_ids(self, deployment: DeploymentPolicy) -> bool:
        """An engine of it reads ids and not text; so it is while none has told."""
        told = self._told(deployment.lane)
        return not told or any(capabilities.takes_token_ids for capabilities in told)

    def find_prompt_counter(self, deployment: DeploymentPolicy) -> CountsPrompts | None:
        """A connected replica of it that counts prompts, where one does."""
        for link in self._of_lane(deployment.lane):
            client: object = link.client  # that it is an EngineClient as well says nothing here
            if isinstance(client, CountsPrompts):
                return client
        return None

    def _of_lane(self, lane: str) -> list[ReplicaLink]:
        return [link for link in self._links.values() if link.lane == lane]

    def _told(self, lane: str) -> list[EngineCapabilities]:
        links = self._of_lane(lane)
        return [link.capabilities for link in links if link.capabilities is not None]

    def reports(self) -> tuple[ReplicaReport, ...]:
        """Every replica, those being retired included."""
        links = [*self._links.values(), *self._retiring.values()]
        held_back = {
            each.replica_id: each.describe()
            for lane in self._queues
            for each in self.ejections(lane)
        }
        return tuple(
            link.report(self._num_outstanding(link), held_back.get(link.endpoint.replica_id))
            for link in links
        )

    def num_queued_by_deployment(self) -> dict[str, int]:
        """Requests that wait for a slot, of every deployment that anybody asked for, in either
        arm."""
        waiting: Counter[str] = Counter()
        for lane, queue in self._queues.items():
            waiting[self._deployment_of_lane.get(lane, lane)] += queue.num_waiting
        return dict(waiting)

    def set_held_elsewhere(self, num_by_replica: Mapping[str, int]) -> None:
        """Slots that a predecessor which drains still holds: they are not ours to give."""
        self._held_elsewhere = dict(num_by_replica)
        self._share_slots()

    def held(self) -> dict[str, int]:
        """Slots by replica that this process and its draining predecessors hold."""
        links = [*self._links.values(), *self._retiring.values()]
        total = Counter(self._held_elsewhere)
        total.update({link.endpoint.replica_id: self._num_outstanding(link) for link in links})
        return {replica_id: num for replica_id, num in total.items() if num}

    def connected(self) -> set[str]:
        """Ids of the replicas that can be sent requests now."""
        return {replica_id for replica_id, link in self._links.items() if link.is_connected}

    def enforced(self) -> set[str]:
        """Ids of the replicas of the enforced snapshot."""
        return set(self._links)

    def ejections(self, lane: str) -> list[EjectionStatus]:
        """Replicas of it that are sent nothing, or less than the others."""
        queue = self._queues.get(lane)
        return [] if queue is None else queue.router.ejections.statuses(self._clock())

    def queues(self) -> Iterable[DeploymentQueue]:
        """Every queue."""
        return self._queues.values()

    async def close(self) -> None:
        """Close every connection at once."""
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.wait({self._expiry})
        retiring = list(self._retiring)
        for task in retiring:
            task.cancel()
        links = [*self._links.values(), *self._retiring.values()]
        self._links.clear()
        await asyncio.gather(*retiring, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in links))

    def _create_client(self, endpoint: ReplicaEndpoint) -> EngineClient:
        assert self._plugins is not None, "load_engines comes before enforce"
        client: EngineClient | None = self._plugins.hook.pilothouse_create_engine_client(
            endpoint=endpoint
        )
        if client is None:
            raise ValueError(f"plugin {endpoint.engine!r} makes no client for its own engine")
        return client

    def _retire(self, link: ReplicaLink) -> None:
        task = asyncio.create_task(
            link.retire(lambda: self._num_outstanding(link), self._drain_seconds)
        )
        self._retiring[task] = link
        task.add_done_callback(lambda done: self._retiring.pop(done, None))

    def _num_outstanding(self, link: ReplicaLink) -> int:
        replica_id = link.endpoint.replica_id
        return sum(queue.num_outstanding(replica_id) for queue in self._queues.values())

    def _share_slots(self) -> None:
        for name, queue in list(self._queues.items()):
            self._tell_replicas(name, queue)
            if name not in self._lanes and not queue.num_waiting and not queue.num_held:
                self._forget(name)

    def _tell_replicas(self, lane: str, queue: DeploymentQueue) -> None:
        """Those that can be reached; of these, all that are not ejected may be used."""
        slots = self._slots_of(lane)
        queue.kv.keep_only(slots.keys())
        enforced = {link.endpoint.replica_id for link in self._of_lane(lane)}
        queue.router.set_replicas(enforced, set(slots))
        usable = queue.router.ejections.usable()
        queue.set_replicas(
            {each: limit for each, limit in slots.items() if each in usable},
            slots_elsewhere(slots, self._queues, self._lanes, self._held_elsewhere)
            if lane in self._lanes
            else self._held_elsewhere,
        )
        if not slots and self._deployment_of_lane.get(lane, lane) != lane:
            queue.send_away(_CANDIDATE_LOST)  # the stable arm takes them

    def _note_ejections(self, lane: str) -> None:
        for each in self.ejections(lane):
            _log.warning("replica held back", replica_id=each.replica_id, why=each.describe())
        self._share_slots()

    def _note_stats(self, link: ReplicaLink, stats: EngineStats) -> None:
        queue = self._queues.get(link.lane)
        replica_id = link.endpoint.replica_id
        if queue is not None:
            queue.note_blocks(replica_id, sight_of(stats, self._clock()))
        candidate = None if queue is None else queue.find_candidate(replica_id)
        if queue is None or candidate is None or link.capabilities is None:
            return
        believed = candidate.is_believed
        queue.router.note_report(
            candidate,
            stats.num_running,
            stats.num_waiting,
            stats.age_seconds,
            link.capabilities.max_num_seqs,
        )
        if believed and not candidate.is_believed and candidate.reported is not None:
            why = candidate.reported.why_not
            _log.warning("a replica's report is not believed", replica_id=replica_id, why=why)
        if stats.num_blocks is not None and stats.block_size is not None:
            capacity = stats.num_blocks * stats.block_size
            queue.router.index.set_capacity(replica_id, capacity)

    def _wants_prefixes(self, link: ReplicaLink) -> bool:
        queue = self._queues.get(link.lane)
        return queue is not None and queue.router.wants_prefixes

    def _note_prefixes(self, link: ReplicaLink, report: PrefixReport) -> bool:
        queue = self._queues.get(link.lane)
        return queue is not None and queue.router.note_prefixes(link.endpoint.replica_id, report)

    def _forget(self, lane: str) -> None:
        if not any(link.lane == lane for link in self._retiring.values()):
            del self._queues[lane]
            self._admissions.pop(lane, None)
            self._deployment_of_lane.pop(lane, None)

    def _slots_of(self, lane: str) -> dict[str, int | None]:
        policy = self._lanes.get(lane)
        if policy is None:
            return {}
        return {
            replica_id: limit_slots(
                policy.policy.max_active_per_replica,
                link.capabilities.max_num_seqs,
                self._surplus_slots,
            )
            for replica_id, link in self._links.items()
            if link.lane == lane
            and link.is_connected
            and link.capabilities
            and (policy.pinned_replicas is None or replica_id in policy.pinned_replicas)
        }

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRE_SECONDS)
            for queue in self._queues.values():
                queue.expire()
                queue.check_replicas()
                self._tell_failures(queue.router)
            if any(lane not in self._lanes for lane in self._queues):
                self._share_slots()  # what those hold that are gone may be free by now

    @staticmethod
    def _tell_failures(router: Router) -> None:
        failure = router.take_failure()
        if failure is not None:
            _log.error("routing policy failed", policy=router.policy_name, error=failure)
