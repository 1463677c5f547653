"""Documents that ask for something else begin a rollout; it moves, ends, and takes its deployment
with it."""

from dataclasses import replace

import pytest

from controlplane.rollouts.machine import Demand, RolloutState, UnmetDemandError
from controlplane.rollouts.strategy import OnTimeout
from controlplane.specs.kind import Kind
from controlplane.store.audit import AuditFilter, list_events
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment, find_deployment, list_changes
from controlplane.store.overrides import (
    NewOverride,
    OverrideError,
    StoredOverride,
    add_override,
)
from controlplane.store.revisions import apply_documents, find_latest
from controlplane.store.rollout_demands import advance_rollout, demand_rollout, retry_rollout
from controlplane.store.rollouts import (
    StaleRolloutError,
    StoredRollout,
    find_last,
    list_living,
    list_moves,
    list_rollouts,
)
from dataplane.arm import Arm
from dataplane.policy import OverrideKind
from tests.controlplane.config_documents import (
    DEPLOYMENT,
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    MODEL,
    SERVICE,
    documents,
)

STEPS = "{steps: [{share: 5%, for: 1m}, {share: 50%, for: 1m}]}"
ROLLING = DEPLOYMENT.replace("replicas: 2", f"replicas: 2, rollout: {STEPS}")
OTHER_MODEL = MODEL.replace("smollm2.gguf", "other.gguf")
THIRD_MODEL = MODEL.replace("smollm2.gguf", "third.gguf")
OTHER_POLICY = DESIGN_POLICY.replace("64", "65")


def apply(database: Database, *texts: str, at: int = 1, author: str = "ann") -> None:
    with database.session() as session:
        apply_documents(session, documents(*texts), author=author, reason="why", clock=lambda: at)


@pytest.fixture
def rolling(database: Database) -> Database:
    """Its deployment moves in steps."""
    apply(database, *SERVICE)
    apply(database, ROLLING)
    return database


def chat(database: Database) -> DesiredDeployment:
    with database.reading() as session:
        found = find_deployment(session, "chat")
    assert found is not None
    return found


def last(database: Database) -> StoredRollout:
    with database.reading() as session:
        found = find_last(session, "chat")
    assert found is not None
    return found


def move(database: Database, state: RolloutState, at: int = 9) -> None:
    rollout = last(database)
    progress = replace(rollout.progress, state=state, reason="so it is")
    with database.session() as session:
        advance_rollout(session, rollout, progress, now_unix_ns=at)


def test_the_strategy_alone_moves_nothing(rolling: Database) -> None:
    assert chat(rolling).rollout is None
    with rolling.reading() as session:
        assert list_rollouts(session) == []


@pytest.mark.parametrize(
    ("text", "stable", "candidate", "has_own_replicas"),
    [
        (OTHER_MODEL, "smollm2@1", "smollm2@2", True),
        (OTHER_POLICY, "chat@1", "chat@2", False),
    ],
)
def test_another_model_or_policy_is_tried_and_what_runs_stays(
    rolling: Database, text: str, stable: str, candidate: str, has_own_replicas: bool
) -> None:
    before = chat(rolling)
    apply(rolling, text, at=5, author="bob")
    after, rollout = chat(rolling), last(rolling)
    assert after.revisions == before.revisions
    assert after.generation == before.generation
    assert after.rollout == rollout
    assert stable in {each.label for each in rollout.stable.all}
    assert candidate in {each.label for each in rollout.candidate.all}
    assert rollout.has_own_replicas is has_own_replicas
    assert (rollout.progress.state, rollout.created_by) == (RolloutState.WAITING, "bob")
    assert [step.share for step in rollout.strategy.steps] == [0.05, 0.5]


def test_what_becomes_of_an_undecided_step_is_read_back(rolling: Database) -> None:
    aborting = ROLLING.replace("steps:", "on_timeout: abort, steps:")
    apply(rolling, aborting, OTHER_POLICY)
    assert last(rolling).strategy.on_timeout is OnTimeout.ABORT


def test_a_contract_and_the_number_of_replicas_move_at_once(rolling: Database) -> None:
    apply(rolling, DESIGN_CONTRACT.replace("300ms", "400ms"))
    apply(rolling, ROLLING.replace("replicas: 2", "replicas: 3"))
    desired = chat(rolling)
    assert desired.revisions.contract is not None
    assert desired.revisions.contract.label == "chat@2"
    assert desired.spec.replicas == 3
    assert desired.rollout is None


def test_they_move_at_once_while_a_rollout_is_under_way_too(rolling: Database) -> None:
    apply(rolling, OTHER_MODEL)
    apply(rolling, ROLLING.replace("replicas: 2", "replicas: 3"))
    desired = chat(rolling)
    assert desired.spec.replicas == 3
    assert desired.revisions.model.label == "smollm2@1"
    assert desired.rollout is not None
    assert not desired.rollout.progress.state.is_over


def test_what_is_promoted_is_what_the_deployment_is(rolling: Database) -> None:
    apply(rolling, OTHER_MODEL, author="bob")
    move(rolling, RolloutState.RUNNING)
    move(rolling, RolloutState.PROMOTED, at=77)
    desired = chat(rolling)
    assert desired.revisions.model.label == "smollm2@2"
    assert desired.rollout is None
    with rolling.reading() as session:
        change = list_changes(session, "chat")[0]
        states = [each.state for each in list_moves(session, last(rolling).number)]
        actions = [event.action for event in list_events(session, AuditFilter(action="rollout"), 9)]
    assert (change.revisions.model.label, change.author, change.at_unix_ns) == (
        "smollm2@2",
        "bob",
        77,
    )
    assert "rollout 1 promoted it" in change.reason
    assert states == [RolloutState.WAITING, RolloutState.RUNNING, RolloutState.PROMOTED]
    assert actions == ["rollout.promote", "rollout.step", "rollout.begin"]
    assert last(rolling).ended_at_unix_ns == 77


def test_what_came_back_is_not_tried_again_by_itself_and_is_when_asked_for(
    rolling: Database,
) -> None:
    apply(rolling, OTHER_MODEL)
    move(rolling, RolloutState.ABORTED)
    apply(rolling, OTHER_MODEL)
    apply(rolling, DESIGN_CONTRACT.replace("300ms", "400ms"))
    assert chat(rolling).revisions.model.label == "smollm2@1"
    assert chat(rolling).rollout is None
    with rolling.session() as session:
        again = retry_rollout(session, 1, actor="ann", reason="it was the disk", now_unix_ns=20)
    assert again.number == 2
    assert again.candidate.ids == last(rolling).candidate.ids
    assert chat(rolling).rollout == again


def test_something_else_is_tried_in_its_place(rolling: Database) -> None:
    apply(rolling, OTHER_MODEL)
    apply(rolling, THIRD_MODEL)
    with rolling.reading() as session:
        newest, first = list_rollouts(session)
    assert first.progress.state is RolloutState.ABORTED
    assert "other revisions" in first.progress.reason
    assert {each.label for each in newest.candidate.all} >= {"smollm2@3"}
    assert newest.stable.ids == first.stable.ids


def test_documents_that_ask_for_what_runs_abort(rolling: Database) -> None:
    apply(rolling, OTHER_MODEL)
    apply(rolling, ROLLING.replace("model: smollm2", "model: smollm2@1"))
    assert last(rolling).progress.state is RolloutState.ABORTED
    assert chat(rolling).revisions.model.label == "smollm2@1"
    assert chat(rolling).rollout is None


@pytest.mark.parametrize("state", [RolloutState.RUNNING, RolloutState.ABORTED])
def test_a_document_that_is_changed_back_moves_nothing_and_ends_what_tried_the_change(
    rolling: Database, state: RolloutState
) -> None:
    before = chat(rolling)
    apply(rolling, OTHER_MODEL)
    move(rolling, state)
    apply(rolling, MODEL)
    after = chat(rolling)
    assert (after.revisions, after.generation) == (before.revisions, before.generation)
    assert after.rollout is None
    assert (last(rolling).number, last(rolling).progress.state) == (1, RolloutState.ABORTED)
    with rolling.reading() as session:
        newest = find_latest(session, Kind.MODEL, "smollm2")
    assert newest is not None
    assert newest.number == 3


def test_without_steps_it_moves_at_once(rolling: Database) -> None:
    apply(rolling, OTHER_MODEL)
    apply(rolling, DEPLOYMENT)
    assert last(rolling).progress.state is RolloutState.PROMOTED
    assert chat(rolling).revisions.model.label == "smollm2@2"


def test_two_who_move_it_at_once_are_told_apart(rolling: Database) -> None:
    apply(rolling, OTHER_MODEL)
    seen = last(rolling)
    move(rolling, RolloutState.RUNNING)
    progress = replace(seen.progress, state=RolloutState.ABORTED)
    with pytest.raises(StaleRolloutError), rolling.session() as session:
        advance_rollout(session, seen, progress, now_unix_ns=9)
    assert last(rolling).progress.state is RolloutState.RUNNING


def test_people_may_abort_and_their_reason_is_kept(rolling: Database) -> None:
    apply(rolling, OTHER_MODEL)
    with rolling.session() as session:
        demand_rollout(session, 1, Demand.ABORT, actor="eve", reason="it smells", now_unix_ns=4)
    with rolling.reading() as session:
        end = list_moves(session, 1)[-1]
        assert list_living(session) == []
    assert (end.actor, end.reason) == ("eve", "a person aborted it: it smells")


@pytest.mark.parametrize("number", [1, 2])
def test_what_cannot_be_done_is_refused(rolling: Database, number: int) -> None:
    apply(rolling, OTHER_MODEL)
    error = UnmetDemandError if number == 1 else LookupError
    with rolling.session() as session:
        with pytest.raises(error):
            demand_rollout(session, number, Demand.RESUME, actor="eve", reason="", now_unix_ns=4)
        with pytest.raises(error):
            retry_rollout(session, number, actor="eve", reason="", now_unix_ns=4)


def force(database: Database, arm: Arm | None = Arm.STABLE) -> StoredOverride:
    wanted = NewOverride(
        kind=OverrideKind.FORCE_ARM, deployment="chat", reason="to look", seconds=60, arm=arm
    )
    with database.session() as session:
        return add_override(session, wanted, actor="eve", clock=lambda: 5)


def test_an_arm_is_forced_only_while_there_are_two(rolling: Database) -> None:
    with pytest.raises(OverrideError, match="it has one arm alone"):
        force(rolling)
    apply(rolling, OTHER_MODEL)
    assert force(rolling).arm is Arm.STABLE
    with pytest.raises(OverrideError, match="arm: say which, stable or candidate"):
        force(rolling, None)


def test_the_latest_document_is_stored_whatever_runs(rolling: Database) -> None:
    apply(rolling, OTHER_MODEL)
    with rolling.reading() as session:
        latest = find_latest(session, Kind.MODEL, "smollm2")
    assert latest is not None
    assert latest.number == 2
