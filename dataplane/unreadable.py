"""What stands where a replica's spec on record cannot be read: damaged, or of another version."""

from dataplane.engine import ReplicaSpec


def unreadable_spec(replica_id: str, deployment: str) -> ReplicaSpec:
    """Stands for a spec on record that this version cannot read; it equals no desired one."""
    word = "unreadable"
    return ReplicaSpec(
        replica_id=replica_id,
        deployment=deployment,
        engine=word,
        model_name=word,
        model_revision=word,
        engine_config_revision=word,
        artifact="",
    )
