"""What stands where a replica's spec on record cannot be read: damaged, or of another version."""

from dataplane.engine import ReplicaSpec

_WORD = "unreadable"


def is_unreadable(spec: ReplicaSpec) -> bool:
    """It stands for one."""
    return spec.engine == _WORD


def unreadable_spec(replica_id: str, deployment: str) -> ReplicaSpec:
    """Stands for a spec on record that this version cannot read; it equals no desired one."""
    return ReplicaSpec(
        replica_id=replica_id,
        deployment=deployment,
        engine=_WORD,
        model_name=_WORD,
        model_revision=_WORD,
        engine_config_revision=_WORD,
        artifact="",
    )
