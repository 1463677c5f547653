"""What applying documents would do, by doing it and taking it back.

No second reading of the rules of moving: what is compared is what `apply` itself leaves, in a unit
of work that keeps nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from controlplane.rollouts.change_plan.start_times import PastStart
from controlplane.rollouts.change_plan.world import World
from controlplane.specs.documents import Document
from controlplane.store.overrides import StoredOverride, list_in_force
from controlplane.store.past_starts import list_past_starts
from controlplane.store.replicas import StoredReplica, list_unended
from controlplane.store.revisions import Applied, apply_documents
from controlplane.store.rollouts import StoredRollout, find_last, find_rollout
from controlplane.store.stand import Stand, read_stand, read_world


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Before and after, and what is known of what runs."""

    world: World
    before: Stand
    after: Stand
    applied: Sequence[Applied]
    ended: Mapping[str, StoredRollout]
    """By deployment: rollouts that are under way, and that it would end; as they would be."""
    last_rollouts: Mapping[str, StoredRollout]
    """Of deployments that do not run what is latest, before; those that ever had one."""
    overrides: Sequence[StoredOverride]
    replicas: Sequence[StoredReplica]
    past_starts: Sequence[PastStart]


def attempt(session: Session, documents: Sequence[Document], now_unix_ns: int) -> Attempt:
    """In a unit of work that may write; it is left as it was."""
    world, before = read_world(session), read_stand(session)
    last = {name: find_last(session, name) for name in sorted(_behind(before))}
    tried = session.begin_nested()
    applied = apply_documents(session, documents, author="plan", reason="")
    after = read_stand(session)
    ended = _ended(session, before, after)
    tried.rollback()
    session.expire_all()
    return Attempt(
        world=world,
        before=before,
        after=after,
        applied=applied,
        ended=ended,
        last_rollouts={name: each for name, each in last.items() if each is not None},
        overrides=list_in_force(session, now_unix_ns),
        replicas=list_unended(session),
        past_starts=list_past_starts(session),
    )


def _ended(session: Session, before: Stand, after: Stand) -> dict[str, StoredRollout]:
    found = {}
    for name, deployment in before.deployments.items():
        living, then = deployment.rollout, after.deployments.get(name)
        if living is None or then is None:
            continue
        if then.rollout is None or then.rollout.number != living.number:
            over = find_rollout(session, living.number)
            if over is not None:
                found[name] = over
    return found


def _behind(stand: Stand) -> set[str]:
    """Deployments that do not run the latest of what they name."""
    return {
        name
        for name, each in stand.deployments.items()
        for revision in each.revisions.all
        if stand.latest[revision.kind, revision.name].number != revision.number
    }
