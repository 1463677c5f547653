"""What a replica that failed wrote last, and how it ended."""

from dataclasses import dataclass
from pathlib import Path

from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.log import LogReader
from controlplane.diagnosis.sources.part import Part
from controlplane.store.replicas import ReplicaTransition

_TAIL_BYTES = 256 * 2**10
"""The end of a log is read: what an engine did last, and what broke it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Of the newest replica of a deployment that failed, where none is ready since."""

    deployment: str
    replica_id: str
    at: float
    """Unix seconds."""
    reason: str


def newest_failures(transitions: list[ReplicaTransition]) -> dict[str, Failure]:
    """By deployment, of `transitions` with the newest first: those that failed last and were not
    ready since."""
    newest: dict[str, ReplicaTransition] = {}
    for each in transitions:
        if each.state in ("ready", "failed"):
            newest.setdefault(each.deployment, each)
    return {
        name: Failure(
            deployment=name,
            replica_id=each.replica_id,
            at=each.at_unix_ns / 1e9,
            reason=each.reason,
        )
        for name, each in newest.items()
        if each.state == "failed"
    }


GIVEN_UP_KEY = "replica_given_up"
_HUNG = "hung:"
"""So begins why the operator drains one that answers no probe and takes no step."""


def given_up(transitions: list[ReplicaTransition], since: float) -> dict[str, Part]:
    """By deployment, of `transitions` with the newest first: replicas that the operator gave up as
    hung after `since` (Unix seconds). It ends them within seconds, and their metrics with them."""
    found: dict[str, dict[str, str]] = {}
    newest: dict[str, float] = {}
    for each in transitions:
        at = each.at_unix_ns / 1e9
        if each.state == "draining" and each.reason.startswith(_HUNG) and at >= since:
            found.setdefault(each.deployment, {})[each.replica_id] = each.reason
            newest.setdefault(each.deployment, at)
    return {
        name: Part(facts=facts_of({GIVEN_UP_KEY: why}, newest[name], is_observed=True))
        for name, why in found.items()
    }


def read_failure(failure: Failure, logs_dir: Path) -> Part:
    """The end of its log, and why the operator says that it failed, on the Unix clock."""
    reader = LogReader(failure.replica_id)
    path = logs_dir / f"{failure.replica_id}.log"
    reader.read([*_tail(path), failure.reason])
    return reader.finish(zero=0.0 if reader.knows_year else None, first_at=failure.at)


def _tail(path: Path) -> list[str]:
    """Its last lines; none where there is no such file, as of a launcher on other machines."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = text.splitlines()
    return lines[1:] if size > _TAIL_BYTES else lines
