"""From requests on record to the next step, to the end, and back, over real databases."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest

from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.operator.operator import Operator
from controlplane.operator.served_policies import ReadyReplicas, ServedPolicies
from controlplane.operator.snapshot import rollout_terms
from controlplane.rollouts.machine import RolloutState
from controlplane.rollouts.worker import Look, RolloutWorker
from controlplane.store.connection import DatabaseKind
from controlplane.store.deployments import DesiredDeployment, find_deployment
from controlplane.store.overrides import NewOverride, add_override
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.revisions import apply_documents
from controlplane.store.rollouts import StoredRollout, find_last, list_moves
from dataplane.arm import Arm
from dataplane.decision import AdmissionDecision, AdmissionOutcome, ShadowDecision
from dataplane.policy import OverrideKind
from dataplane.record import RequestRecord, RolloutPlace
from ops.sample_requests import Sample, answered, failed
from tests.controlplane.config_documents import (
    DEPLOYMENT,
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
    documents,
)
from tests.databases import Databases

NS = 10**9
STEPS = (
    "{steps: [{share: 20%, for: 30s}, {share: 50%, for: 30s}], timeout: 10m, "
    "analysis: {min_requests: 50, margins: {attainment: 20%, failures: 20%, cut: 20%, empty: 20%, "
    "answer_length: 50%, ttft: 50%, tpot: 50%}}}"
)
ROLLING = DEPLOYMENT.replace("replicas: 2", f"replicas: 2, rollout: {STEPS}")
OTHER_POLICY = DESIGN_POLICY.replace("64", "65")
OTHER_MODEL = MODEL.replace("smollm2.gguf", "other.gguf")
Tell = Callable[[Sample], RequestRecord]


class Installation:
    """Databases, a clock that stands until it is set, and a worker that turns when it is told."""

    def __init__(self, databases: Databases, folder: Path) -> None:
        self.config_db = databases.open(DatabaseKind.CONFIG)
        self.request_db = databases.open(DatabaseKind.REQUESTS)
        self.now = 1_790_000_000
        self.num_records = 0
        self.num_moves = 0
        self.observed = ObservedState(self.clock)
        self.operator = Operator(
            self.config_db, InstalledPlugins(folder), self.observed, SnapshotFeed()
        )
        self.apply(MODEL, ENGINE, DESIGN_CONTRACT, DESIGN_POLICY, ROLLING)
        self.worker = self.create_worker()

    def create_worker(self) -> RolloutWorker:
        """As a control plane that starts makes one."""
        return RolloutWorker(
            self.config_db,
            self.request_db,
            self.operator,
            self.observed,
            self.clock,
            on_move=self.note_move,
        )

    def note_move(self) -> None:
        self.num_moves += 1

    def clock(self) -> int:
        return self.now * NS

    def apply(self, *texts: str) -> None:
        with self.config_db.session() as session:
            apply_documents(session, documents(*texts), author="ann", reason="", clock=self.clock)

    def requests(self, arm: Arm, num: int, tell: Tell = answered, rollout: int = 1) -> None:
        """So many ended just now."""
        place = RolloutPlace(number=rollout, arm=arm)
        records = []
        for n in range(num):
            self.num_records += 1
            sample = Sample(
                sequence=self.num_records,
                arrived_at_unix_ns=self.clock(),
                num_prompt_tokens=100,
                num_output_tokens=40 + n % 10,
                prefill_seconds=0.02 + n % 7 / 1000,
            )
            records.append(replace(tell(sample), rollout=place, contract_revision="chat@1"))
        batch = RecordBatch(gateway_id="g", num_lost=0, records=tuple(records))
        with self.request_db.session() as session:
            store_batch(session, batch, Random(1), ReservoirSizes())

    def go_on(self, seconds: int) -> StoredRollout:
        self.now += seconds
        self.worker.turn()
        return self.last()

    def last(self) -> StoredRollout:
        with self.config_db.reading() as session:
            found = find_last(session, "chat")
        assert found is not None
        return found

    def shares(self) -> tuple[float, bool] | None:
        """What gateways give to the candidate, and whether its policy looks on; None: nothing."""
        with self.config_db.reading() as session:
            found = find_deployment(session, "chat")
        assert found is not None
        if found.rollout is None:
            return None
        terms = rollout_terms(found, found.rollout, ReadyReplicas(()), ServedPolicies())
        return terms.share, terms.is_shadow

    def running(self) -> tuple[str, str]:
        """The model and the policy that the deployment is."""
        with self.config_db.reading() as session:
            found = find_deployment(session, "chat")
        assert found is not None
        return found.revisions.model.label, found.revisions.policy.label

    def make_ready(self, num: int) -> None:
        """Replicas of the candidate."""
        self.observed.set_replicas(
            [
                ObservedReplica(
                    replica_id=f"chat-{n}",
                    deployment="chat",
                    engine="scripted",
                    model_revision="smollm2@2",
                    state="ready",
                    reason="",
                    stage="serving",
                    pid=None,
                    address=None,
                    metrics_address=None,
                    start_stages={},
                    probed_at_unix_ns=None,
                    observed_at_unix_ns=self.clock(),
                    rollout=self.last().number,
                )
                for n in range(num)
            ]
        )


def shadowed(sample: Sample, *, is_alike: bool) -> RequestRecord:
    """Admitted, where a policy in shadow says the same, or no."""
    enforced = AdmissionDecision(
        outcome=AdmissionOutcome.ADMITTED,
        snapshot_version=1,
        policy_revision="chat@1",
        request_class="interactive",
    )
    refused = msgspec.structs.replace(
        enforced, outcome=AdmissionOutcome.REJECTED, kind="tenant_tokens"
    )
    own = enforced if is_alike else refused
    shadow = ShadowDecision(rollout=1, decision=own)
    return replace(answered(sample), decision=enforced, shadow=shadow)


@pytest.fixture
def installed(databases: Databases, tmp_path: Path) -> Iterator[Installation]:
    found = Installation(databases, tmp_path)
    yield found
    found.config_db.close()
    found.request_db.close()


def test_a_policy_that_does_as_well_goes_all_the_way(installed: Installation) -> None:
    installed.apply(OTHER_POLICY)
    assert installed.go_on(1).progress.state is RolloutState.RUNNING
    for step in (0, 1):
        assert installed.last().progress.step == step
        installed.now += 1
        installed.requests(Arm.STABLE, 800)
        installed.requests(Arm.CANDIDATE, 800)
        assert installed.go_on(5).progress.step == step  # good, and not for long enough
        last = installed.go_on(30)
    assert last.progress.state is RolloutState.PROMOTED
    assert installed.running() == ("smollm2@1", "chat@2")
    assert installed.num_moves == 3
    with installed.config_db.reading() as session:
        end = list_moves(session, 1)[-1]
    assert end.comparisons is not None
    told = {each["measure"]: each for each in end.comparisons}
    assert told["attainment"]["is_good"] is True
    assert (told["ttft"]["num_stable"], told["ttft"]["num_candidate"]) == (800, 800)
    assert end.standings is not None
    assert {each["contract_revision"] for each in end.standings} == {"chat@1"}
    promised = {(each["request_class"], each["objective"]): each for each in end.standings}
    ttft = promised["interactive", "ttft"]
    assert (ttft["at_most_seconds"], ttft["candidate"]["num"], ttft["burning"]) == (0.3, 800, "no")


def test_with_all_of_the_traffic_the_contract_decides_alone(installed: Installation) -> None:
    whole = ROLLING.replace("{share: 50%, for: 30s}", "{share: 100%, for: 30s}")
    for tell, state in ((failed, RolloutState.ABORTED), (answered, RolloutState.PROMOTED)):
        installed.apply(whole, DESIGN_POLICY.replace("64", "70" if tell is failed else "71"))
        number = installed.go_on(1).number
        for arm in Arm:
            installed.requests(arm, 800, rollout=number)
        assert installed.go_on(31).progress.step == 1
        installed.now += 1
        installed.requests(Arm.CANDIDATE, 200, tell, rollout=number)
        assert installed.go_on(31).progress.state is state


def test_one_that_fails_requests_goes_back_before_its_time(installed: Installation) -> None:
    installed.apply(OTHER_POLICY)
    installed.go_on(1)
    installed.now += 1
    installed.requests(Arm.STABLE, 400)
    installed.requests(Arm.CANDIDATE, 150)
    installed.requests(Arm.CANDIDATE, 150, failed)
    back = installed.go_on(2)
    assert back.progress.state is RolloutState.ABORTED
    assert "failures is worse: +50 points (" in back.progress.reason
    assert "of 300 candidate and 400 stable requests" in back.progress.reason
    assert installed.running() == ("smollm2@1", "chat@1")


@pytest.mark.parametrize("is_alike", [True, False])
def test_a_policy_looks_on_first_and_goes_back_where_it_decides_otherwise(
    installed: Installation, is_alike: bool
) -> None:
    steps = "{shadow: true, for: 30s, different_at_most: 10%}, {share: 100%, for: 30s}"
    looking = ROLLING.replace("{share: 20%, for: 30s}, {share: 50%, for: 30s}", steps)
    installed.apply(looking, OTHER_POLICY)
    assert installed.go_on(1).progress.state is RolloutState.RUNNING
    assert installed.shares() == (0.0, True)
    installed.now += 1
    installed.requests(Arm.STABLE, 300, lambda sample: shadowed(sample, is_alike=is_alike))
    last = installed.go_on(31)
    expected = (RolloutState.RUNNING, 1) if is_alike else (RolloutState.ABORTED, 0)
    assert (last.progress.state, last.progress.step) == expected
    assert installed.shares() == ((1.0, False) if is_alike else None)
    with installed.config_db.reading() as session:
        told = list_moves(session, 1)[-1].shadow
    assert told is not None
    assert told["num_compared"] == 300
    assert told["groups"][0]["differs"] is not is_alike


def test_requests_of_the_step_before_decide_nothing_in_the_next(installed: Installation) -> None:
    installed.apply(OTHER_POLICY)
    installed.go_on(1)
    installed.now += 1
    installed.requests(Arm.STABLE, 800)
    installed.requests(Arm.CANDIDATE, 800)
    assert installed.go_on(31).progress.step == 1
    assert installed.go_on(100).progress.step == 1


def test_without_requests_nothing_is_decided_until_its_time_is_over(
    installed: Installation,
) -> None:
    installed.apply(OTHER_POLICY)
    installed.go_on(1)
    assert installed.go_on(500).progress.state is RolloutState.RUNNING
    paused = installed.go_on(101)
    assert paused.progress.state is RolloutState.PAUSED
    assert "undecided after 600 s" in paused.progress.reason
    assert installed.running() == ("smollm2@1", "chat@1")


def test_a_model_waits_for_its_replicas(installed: Installation) -> None:
    installed.apply(OTHER_MODEL)
    assert installed.go_on(1).progress.state is RolloutState.WAITING
    installed.make_ready(1)
    assert installed.go_on(1).progress.state is RolloutState.RUNNING


def test_without_room_for_a_candidate_the_last_replica_stays_and_the_remedy_is_said(
    installed: Installation,
) -> None:
    installed.apply(ROLLING.replace("replicas: 2", "replicas: 1"))
    installed.apply(OTHER_MODEL)
    back = installed.go_on(1)
    assert back.progress.state is RolloutState.ABORTED
    assert "set replacement.max_surge" in back.progress.reason
    assert installed.running() == ("smollm2@1", "chat@1")


def test_one_that_fails_again_and_again_goes_back_while_it_waits(
    installed: Installation,
) -> None:
    installed.apply(OTHER_MODEL)
    installed.operator.candidate_failures[1] = 1
    assert installed.go_on(1).progress.state is RolloutState.WAITING
    installed.operator.candidate_failures[1] = 2
    installed.operator.candidate_holds[1] = "it ran out of memory"
    back = installed.go_on(1)
    assert back.progress.state is RolloutState.ABORTED
    assert "failed 2 times in a row: it ran out of memory" in back.progress.reason


def test_while_rollouts_are_frozen_what_is_good_stays_and_what_is_bad_comes_back(
    installed: Installation,
) -> None:
    installed.apply(OTHER_POLICY)
    installed.go_on(1)
    with installed.config_db.session() as session:
        wanted = NewOverride(
            kind=OverrideKind.FREEZE, deployment="chat", reason="quarter end", seconds=3600
        )
        frozen = add_override(session, wanted, actor="eve", clock=installed.clock)
    installed.observed.set_overrides([frozen])
    installed.now += 1
    installed.requests(Arm.STABLE, 800)
    installed.requests(Arm.CANDIDATE, 800)
    assert installed.go_on(60).progress.step == 0
    installed.requests(Arm.CANDIDATE, 800, failed)
    assert installed.go_on(5).progress.state is RolloutState.ABORTED


def test_one_that_cannot_be_judged_holds_up_no_other(
    installed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.apply(ROLLING.replace("name: chat}", "name: another}"))
    installed.apply(OTHER_POLICY)
    installed.go_on(1)
    whole = installed.worker._look

    def look(deployment: DesiredDeployment, rollout: StoredRollout) -> Look | None:
        if rollout.deployment == "another":
            raise OSError("its rows are gone")
        return whole(deployment, rollout)

    monkeypatch.setattr(installed.worker, "_look", look)
    with pytest.raises(RuntimeError, match="OSError: its rows are gone"):
        installed.go_on(601)
    assert installed.last().progress.state is RolloutState.PAUSED


def test_a_control_plane_that_starts_goes_on_where_it_was(installed: Installation) -> None:
    installed.apply(OTHER_POLICY)
    installed.go_on(1)
    installed.now += 1
    installed.requests(Arm.STABLE, 800)
    installed.requests(Arm.CANDIDATE, 800)
    installed.worker = installed.create_worker()
    after = installed.go_on(31)
    assert (after.progress.state, after.progress.step) == (RolloutState.RUNNING, 1)


def test_a_contract_that_changes_on_the_way_is_what_counts_from_then_on(
    installed: Installation,
) -> None:
    installed.apply(OTHER_POLICY)
    installed.go_on(1)
    installed.now += 1
    installed.requests(Arm.STABLE, 400)
    installed.requests(Arm.CANDIDATE, 400)
    installed.apply(DESIGN_CONTRACT.replace("300ms", "290ms"))
    installed.go_on(5)
    standings = installed.worker.looks[1].analysis.standings
    ttft = next(each for each in standings if each.promise.objective == "ttft")
    assert (ttft.promise.contract_revision, ttft.promise.at_most_seconds) == ("chat@2", 0.29)
    assert [ttft.kept[arm].num for arm in Arm] == [0, 0]  # these were promised something else
