"""What happened, in one list: replicas that moved, gateways and control planes that failed or
are refused, changes of what is desired, and rollouts, overrides and silences that began and
ended."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from controlplane.cli.answers import (
    ChangeAnswer,
    ProcessEventAnswer,
    ProcessHistoryAnswer,
    ReplicasAnswer,
    TransitionAnswer,
)
from controlplane.cli.client import convert_answer, get_json
from controlplane.cli.documents import get_documents
from controlplane.cli.terminal import instant, table

if TYPE_CHECKING:
    from controlplane.api.override_views import OverrideView
    from controlplane.api.rollout_views import RolloutLine
    from controlplane.api.silence_views import SilenceView


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One of them."""

    at_unix_ns: int
    deployment: str | None
    """None for what happened to a gateway, a control plane, or every deployment."""
    subject: str
    """replica and its id, generation or rollout and its number, override, silence or maintenance
    and its id, or gateway or control plane and its name."""
    what: str
    reason: str
    author: str | None
    """Who changed what is desired or enforced; None for what happened by itself."""
    process: str | None = None
    """The name of the gateway or the control plane."""


def get_happenings(url: str, limit: int) -> list[Happening]:
    """The newest `limit` of all deployments, the newest first."""
    from controlplane.specs.kind import Kind

    answer = get_json(url, "/api/v1/replicas", limit=limit)
    happened = [_of_replica(each) for each in convert_answer(url, answer, ReplicasAnswer).history]
    told = get_json(url, "/api/v1/processes/history", limit=limit)
    happened += [
        _of_process(each) for each in convert_answer(url, told, ProcessHistoryAnswer).history
    ]
    happened += [each for override in _overrides(url, limit) for each in _of_override(override)]
    happened += [each for rollout in _rollouts(url, limit) for each in _of_rollout(rollout)]
    happened += [each for silence in _silences(url, limit) for each in _of_silence(silence)]
    deployments, _ = get_documents(url, Kind.DEPLOYMENT)
    for deployment in deployments:
        path = f"/api/v1/deployments/{quote(deployment.name, safe='')}/changes"
        changes = convert_answer(url, get_json(url, path, limit=limit), list[ChangeAnswer])
        happened += [_of_change(deployment.name, change) for change in changes]
    return sorted(happened, key=lambda each: -each.at_unix_ns)[:limit]


def happening_table(happenings: Sequence[Happening]) -> str:
    """One line for each."""
    if not happenings:
        return "nothing has happened yet"
    rows: Iterable[tuple[str, ...]] = (
        (
            instant(each.at_unix_ns),
            each.deployment or "-",
            each.subject,
            each.what,
            each.author or "-",
            each.reason or "-",
        )
        for each in happenings
    )
    return table([("AT", "DEPLOYMENT", "SUBJECT", "WHAT", "AUTHOR", "REASON"), *rows])


def _of_replica(transition: TransitionAnswer) -> Happening:
    return Happening(
        at_unix_ns=transition.at_unix_ns,
        deployment=transition.deployment,
        subject=f"replica {transition.replica_id}",
        what=transition.state,
        reason=transition.reason,
        author=None,
    )


def _of_process(event: ProcessEventAnswer) -> Happening:
    role = "control plane" if event.role == "controlplane" else event.role
    return Happening(
        at_unix_ns=event.at_unix_ns,
        deployment=None,
        subject=f"{role} {event.name}",
        what=event.what,
        reason=event.reason,
        author=None,
        process=event.name,
    )


def _overrides(url: str, limit: int) -> "list[OverrideView]":
    from controlplane.api.override_views import OverrideList

    answer = get_json(url, "/api/v1/overrides", all="true", limit=limit)
    return convert_answer(url, answer, OverrideList).overrides


def _of_override(override: "OverrideView") -> list[Happening]:
    """Its beginning, and its end where it is over."""
    began = Happening(
        at_unix_ns=override.created_at_unix_ns,
        deployment=override.deployment,
        subject=f"override {override.override_id}",
        what=f"began: {override.effect}",
        reason=override.reason,
        author=override.created_by,
    )
    if override.ended_at_unix_ns is None:
        return [began]
    return [began, _end_of(began, override.ended_at_unix_ns, override)]


def _rollouts(url: str, limit: int) -> "list[RolloutLine]":
    from controlplane.api.rollout_views import RolloutList

    answer = get_json(url, "/api/v1/rollouts", limit=limit)
    return convert_answer(url, answer, RolloutList).rollouts


def _of_rollout(rollout: "RolloutLine") -> list[Happening]:
    """Its beginning, and its end where it is over."""
    changes = ", ".join(each.text for each in rollout.changes)
    began = Happening(
        at_unix_ns=rollout.created_at_unix_ns,
        deployment=rollout.deployment,
        subject=f"rollout {rollout.number}",
        what=f"began: {changes}",
        reason=rollout.created_reason,
        author=rollout.created_by,
    )
    if rollout.ended_at_unix_ns is None:
        return [began]
    what = f"{rollout.state} at step {rollout.step} of {rollout.num_steps}: {changes}"
    ended = replace(
        began,
        at_unix_ns=rollout.ended_at_unix_ns,
        what=what,
        reason=rollout.reason,
        author=None,
    )
    return [began, ended]


def _silences(url: str, limit: int) -> "list[SilenceView]":
    from controlplane.api.silence_views import SilenceList

    answer = get_json(url, "/api/v1/silences", all="true", limit=limit)
    return convert_answer(url, answer, SilenceList).silences


def _of_silence(silence: "SilenceView") -> list[Happening]:
    """As of an override. What is planned has not happened, and what was called off never began."""
    began = Happening(
        at_unix_ns=silence.from_unix_ns,
        deployment=silence.deployment,
        subject=f"{silence.kind} {silence.silence_id}",
        what=f"began: nobody is told of {silence.what}",
        reason=silence.reason,
        author=silence.created_by,
    )
    if silence.state == "planned" or silence.over_at_unix_ns <= silence.from_unix_ns:
        return []
    if silence.state == "in_force":
        return [began]
    return [began, _end_of(began, silence.over_at_unix_ns, silence)]


def _end_of(began: Happening, at_unix_ns: int, over: "OverrideView | SilenceView") -> Happening:
    """By somebody, or at its time."""
    return replace(
        began,
        at_unix_ns=at_unix_ns,
        what=began.what.replace("began", "ended", 1),
        reason=over.end_reason or "its time was over",
        author=over.ended_by,
    )


def _of_change(deployment: str, change: ChangeAnswer) -> Happening:
    desired = change.desired
    what = f"wants {desired.model} on {desired.engine_config}, policy {desired.policy}"
    return Happening(
        at_unix_ns=change.at_unix_ns,
        deployment=deployment,
        subject=f"generation {change.generation}",
        what=what + (f", contract {desired.contract}" if desired.contract else ""),
        reason=change.reason,
        author=change.author,
    )
