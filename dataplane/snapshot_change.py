"""What is different between two snapshots: what a gateway that has the first one is sent.

A snapshot of thousands of replicas takes megabytes, and what changes in it a few hundred bytes. A
change names the version that it starts from, and gives whole whatever is new or different; what
comes of it is checked as a snapshot that came whole is, before it replaces the last one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from dataplane.access import AccessKey
from dataplane.policy import (
    DeploymentPolicy,
    Override,
    RolloutTerms,
    Snapshot,
    SnapshotError,
    TenantPolicy,
    check_snapshot,
)

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChange:
    """From one version to another, with none between that its receiver would need."""

    base_version: int
    version: int
    deployments: tuple[DeploymentPolicy, ...] = ()
    """Those that are new or different, in any way, each whole."""
    removed: tuple[str, ...] = ()
    """Names of deployments."""
    tenants: tuple[TenantPolicy, ...] | None = None
    """All that there are now; None: the same as before. So for those below."""
    keys: tuple[AccessKey, ...] | None = None
    overrides: tuple[Override, ...] | None = None
    rollouts: tuple[RolloutTerms, ...] | None = None


class OutOfStepError(SnapshotError):
    """A change of another version than the one that is here: a whole snapshot is needed."""

    def __init__(self, here: int, change: SnapshotChange) -> None:
        super().__init__(
            f"change to version {change.version} refused: it starts from version "
            f"{change.base_version}, and {here} is here"
        )


def change_between(base: Snapshot, new: Snapshot) -> SnapshotChange:
    """What makes `new` of `base`. Deployments are compared by what is in them."""
    before = _by_name(base.deployments)
    after = _by_name(new.deployments)
    return SnapshotChange(
        base_version=base.version,
        version=new.version,
        deployments=tuple(
            each for each in new.deployments if not _is_same(before.get(each.name), each)
        ),
        removed=tuple(name for name in before if name not in after),
        tenants=_if_new(base.tenants, new.tenants),
        keys=_if_new(base.keys, new.keys),
        overrides=_if_new(base.overrides, new.overrides),
        rollouts=_if_new(base.rollouts, new.rollouts),
    )


def apply_change(base: Snapshot, change: SnapshotChange) -> Snapshot:
    """The snapshot of the change's version, checked whole.

    Raises OutOfStepError where `base` is of another version than the change starts from, and
    SnapshotError where what comes of it contradicts itself.
    """
    if base.version != change.base_version:
        raise OutOfStepError(base.version, change)
    deployments = {**_by_name(base.deployments), **_by_name(change.deployments)}
    for name in change.removed:
        deployments.pop(name, None)
    parts = {
        name: part
        for name in ("tenants", "keys", "overrides", "rollouts")
        if (part := getattr(change, name)) is not None
    }
    snapshot = replace(
        base,
        version=change.version,
        deployments=tuple(deployments[name] for name in sorted(deployments)),
        **parts,
    )
    check_snapshot(snapshot)
    return snapshot


def encode_change(change: SnapshotChange) -> bytes:
    """JSON."""
    return msgspec.json.encode(change)


def decode_change(data: bytes) -> SnapshotChange:
    """Raises SnapshotError for wrong types."""
    try:
        return msgspec.json.decode(data, type=SnapshotChange)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise SnapshotError(f"change of the snapshot refused: {error}") from error


def _by_name(deployments: Sequence[DeploymentPolicy]) -> Mapping[str, DeploymentPolicy]:
    return {each.name: each for each in deployments}


def _is_same(before: DeploymentPolicy | None, after: DeploymentPolicy) -> bool:
    return before is after or before == after


def _if_new(before: tuple[_Part, ...], after: tuple[_Part, ...]) -> tuple[_Part, ...] | None:
    return None if before == after else after
