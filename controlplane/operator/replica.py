"""One replica as the operator holds it in memory between two passes."""

from dataclasses import dataclass, field

from controlplane.operator.attached import ATTACHED_LAUNCHERS, OBSERVED
from controlplane.operator.desired import lane_of
from controlplane.operator.observed import ObservedReplica
from controlplane.operator.page_look import UNANSWERED, PageLook
from controlplane.operator.plan import ActualReplica
from controlplane.operator.reach import UNREACHED
from controlplane.operator.restart import Restart
from controlplane.store.replicas import ReplicaState, StoredReplica
from dataplane.engine import ReplicaSpec, ReplicaStatus


@dataclass(slots=True, kw_only=True)
class Replica:
    """Changed by `Reconciler` alone. Times named `_at` are on its monotonic clock."""

    spec: ReplicaSpec
    digest: str
    launcher: str
    state: ReplicaState
    rollout: int | None = None
    """Whose candidate it was started for."""
    reason: str
    since_at: float
    """When it entered its state, or was taken over."""
    ready_at: float | None = None
    address: str | None = None
    metrics_address: str | None = None
    start_stages: dict[str, float] = field(default_factory=dict)
    unobservable_stages: tuple[str, ...] = ()
    stage: str | None = None
    pid: int | None = None
    probed_at_unix_ns: int | None = None
    failure: str | None = None
    """Why it is being ended although it was wanted; then its end counts as a failure."""
    unreachable: str | None = None
    """Of attached ones: why no gateway reaches it, or of one that is only observed, why its page is
    not to be had."""
    restart: Restart | None = None
    """Of attached ones: the newest that is told."""
    is_recalled: bool = False
    """An earlier control plane left it, and it was not seen since."""
    launched_at: float | None = None
    """When its launch had returned; None: it has not."""
    seen_at_unix_ns: int
    """When somebody last showed it: its launcher, or gateways of an attached endpoint. Until then,
    when it was entered or read from the database."""
    is_hung: bool = False
    """It answers nobody, so it is not waited for."""
    is_told_to_end: bool = False
    is_forced_to_end: bool = False
    has_left_at_version: int | None = None
    """The first snapshot version that does not name it any more."""

    @property
    def replica_id(self) -> str:
        """Never reused."""
        return self.spec.replica_id

    @property
    def lane(self) -> str:
        """What its failures are told of."""
        return lane_of(self.spec.deployment, self.rollout)

    def is_launched_before(self, at: float) -> bool:
        """What was seen at that time shows it, if there is anything of it."""
        return self.launched_at is not None and self.launched_at <= at

    def note_seen(self, status: ReplicaStatus | None, pid: int | None, at_unix_ns: int) -> None:
        """What its launcher showed, and its process says of itself."""
        self.pid = pid
        self.seen_at_unix_ns = at_unix_ns
        if status is None:
            return
        self.stage = status.stage
        self.start_stages = dict(status.stages)
        self.unobservable_stages = status.unobservable_stages
        self.address = status.address or self.address
        self.metrics_address = status.metrics_address or self.metrics_address

    def actual(self, *, is_reached: bool = True) -> ActualReplica:
        """As the plan sees it."""
        return ActualReplica(
            replica_id=self.replica_id,
            deployment=self.spec.deployment,
            launcher=self.launcher,
            digest=self.digest,
            is_ready=self.state is ReplicaState.READY,
            is_draining=self.state is ReplicaState.DRAINING,
            rollout=self.rollout,
            is_reached=is_reached,
        )

    def observed(self, look: PageLook | None = None) -> ObservedReplica:
        """As console and API see it. `look`: at the page of one that is only observed."""
        return ObservedReplica(
            replica_id=self.replica_id,
            deployment=self.spec.deployment,
            engine=self.spec.engine,
            model_revision=self.spec.model_revision,
            state=ReplicaState.UNREACHABLE if self.unreachable else self.state.value,
            reason=self.unreachable or self.reason,
            stage=None if self.unreachable else self.stage,
            pid=self.pid,
            address=self.address,
            metrics_address=self.metrics_address,
            start_stages=self.start_stages,
            unobservable_stages=self.unobservable_stages,
            probed_at_unix_ns=self.probed_at_unix_ns,
            observed_at_unix_ns=self.seen_at_unix_ns,
            fencing_token=self.spec.fencing_token,
            is_observed_only=self.launcher == OBSERVED,
            look=look,
            is_attached=self.launcher in ATTACHED_LAUNCHERS,
            rollout=self.rollout,
        )


def from_store(stored: StoredReplica, now: float, now_unix_ns: int) -> Replica:
    """A replica of an earlier control plane, as the database knows it."""
    return Replica(
        spec=stored.spec,
        digest=stored.spec_digest,
        launcher=stored.launcher,
        state=stored.state,
        rollout=stored.rollout,
        reason=stored.reason,
        since_at=now,
        seen_at_unix_ns=now_unix_ns,
        is_recalled=True,
        launched_at=now,
        unreachable=stored.reason if stored.reason.startswith((UNREACHED, UNANSWERED)) else None,
        ready_at=now if stored.state is ReplicaState.READY else None,
        address=stored.address,
        metrics_address=stored.metrics_address,
        start_stages=stored.start_stages,
        unobservable_stages=stored.unobservable_stages,
    )
