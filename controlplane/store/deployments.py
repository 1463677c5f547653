"""Deployments: which revisions are desired, since when, and how far the operator has come.

A deployment document names other documents; here those names are resolved to exact
revisions. Whenever the result differs from what was desired before, the generation grows
and the change enters the history, so that "what ran at 02:14" has one answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import select, tuple_, update
from sqlalchemy.orm import Session

from controlplane.specs.deployment import DeploymentSpec
from controlplane.specs.document import StoredDocumentError
from controlplane.specs.kind import Kind
from controlplane.specs.names import Reference
from controlplane.store.desired_revisions import DesiredRevisions
from controlplane.store.revision import Revision
from controlplane.store.revision_cache import read_revisions
from controlplane.store.revision_ids import find_ids, latest_ids
from controlplane.store.rollout_entry import arm_of, enter, keep_equal, with_arm
from controlplane.store.rollouts import StoredRollout, list_living
from controlplane.store.tables import DeploymentChangeRow, DeploymentRow


class UnresolvedReferenceError(LookupError):
    """A deployment refers to a document that nobody defined. Nothing was stored."""

    def __init__(self, deployment: str, kind: Kind, reference: Reference) -> None:
        super().__init__(
            f"deployment {deployment} refers to {kind} {reference}, which does not exist: "
            f"apply that document first, or in the same call"
        )
        self.deployment = deployment
        self.kind = kind
        self.reference = reference


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredDeployment:
    """What a deployment should be."""

    name: str
    spec: DeploymentSpec
    """Replicas and launcher stand here; for what it refers to, read `revisions`."""
    revisions: DesiredRevisions
    generation: int
    observed_generation: int
    updated_at_unix_ns: int
    rollout: StoredRollout | None = None
    """Under way; `revisions` are then those of the stable arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentChange:
    """What a deployment was to be, from `at_unix_ns` until the next change."""

    name: str
    generation: int
    revisions: DesiredRevisions
    author: str
    reason: str
    at_unix_ns: int


def list_deployments(session: Session) -> list[DesiredDeployment]:
    """Every deployment, by name."""
    rows = session.scalars(select(DeploymentRow).order_by(DeploymentRow.name)).all()
    revisions, living = _revisions_by_id(session, rows), _living(session)
    return [_read_deployment(row, revisions, living.get(row.name)) for row in rows]


def list_readable_deployments(
    session: Session,
) -> tuple[list[DesiredDeployment], dict[str, str]]:
    """Every deployment whose documents this version can read, by name; and of the others, why not.

    A document may have been stored by a newer version, or be damaged: that concerns its own
    deployments only.
    """
    readable, unreadable = [], {}
    living = _living(session)
    rows = session.scalars(select(DeploymentRow).order_by(DeploymentRow.name)).all()
    revisions = _whole_revisions_by_id(session, rows)
    for row in rows:
        try:
            known = _revisions_by_id(session, [row]) if revisions is None else revisions
            desired = _read_deployment(row, known, living.get(row.name))
            for revision in desired.revisions.all:
                revision.any_spec()
        # ValueError: what is stored is no JSON at all.
        except (StoredDocumentError, ValueError) as error:
            unreadable[row.name] = str(error)
        else:
            readable.append(desired)
    return readable, unreadable


def find_deployment(session: Session, name: str) -> DesiredDeployment | None:
    """The deployment called `name`, or None."""
    row = session.get(DeploymentRow, name)
    if row is None:
        return None
    rollout = _living(session).get(name)
    return _read_deployment(row, _revisions_by_id(session, [row]), rollout)


def set_observed_generation(session: Session, name: str, generation: int) -> None:
    """The operator brought `generation` about whole. An older one never replaces a newer."""
    session.execute(
        update(DeploymentRow)
        .where(DeploymentRow.name == name, DeploymentRow.observed_generation < generation)
        .values(observed_generation=generation)
    )


def list_changes(
    session: Session, name: str, limit: int = 100, until_unix_ns: int | None = None
) -> list[DeploymentChange]:
    """A deployment's history, newest first; with `until_unix_ns`, as it was at that instant."""
    query = select(DeploymentChangeRow).where(DeploymentChangeRow.deployment == name)
    if until_unix_ns is not None:
        query = query.where(DeploymentChangeRow.at_unix_ns <= until_unix_ns)
    rows = session.scalars(query.order_by(DeploymentChangeRow.generation.desc()).limit(limit)).all()
    revisions = _revisions_by_id(session, rows)
    return [_read_change(row, revisions) for row in rows]


def find_change_at(session: Session, name: str, at_unix_ns: int) -> DeploymentChange | None:
    """What was desired of a deployment at that instant; None before it existed."""
    row = session.scalars(
        select(DeploymentChangeRow)
        .where(
            DeploymentChangeRow.deployment == name,
            DeploymentChangeRow.at_unix_ns <= at_unix_ns,
        )
        .order_by(DeploymentChangeRow.generation.desc())
        .limit(1)
    ).first()
    return None if row is None else _read_change(row, _revisions_by_id(session, [row]))


def list_changes_between(
    session: Session, start_unix_ns: int, end_unix_ns: int, name: str | None, limit: int
) -> list[tuple[DeploymentChange, DeploymentChange | None]]:
    """Changes of one deployment or of all within a time, newest first, each with the one before."""
    query = select(DeploymentChangeRow).where(
        DeploymentChangeRow.at_unix_ns >= start_unix_ns,
        DeploymentChangeRow.at_unix_ns < end_unix_ns,
    )
    if name is not None:
        query = query.where(DeploymentChangeRow.deployment == name)
    rows = session.scalars(query.order_by(DeploymentChangeRow.id.desc()).limit(limit)).all()
    wanted = [(row.deployment, row.generation - 1) for row in rows if row.generation > 1]
    earlier = session.scalars(
        select(DeploymentChangeRow).where(
            tuple_(DeploymentChangeRow.deployment, DeploymentChangeRow.generation).in_(wanted)
        )
    ).all()
    revisions = _revisions_by_id(session, [*rows, *earlier])
    before = {(row.deployment, row.generation): _read_change(row, revisions) for row in earlier}
    return [
        (_read_change(row, revisions), before.get((row.deployment, row.generation - 1)))
        for row in rows
    ]


def move_deployments(
    session: Session, *, author: str, reason: str, now_unix_ns: int
) -> list[DesiredDeployment]:
    """Resolve every deployment document again, and move the deployments whose result changed.

    Called inside the unit of work that stored new revisions. Returns those that moved. Raises
    UnresolvedReferenceError.
    """
    moved, rolling = [], {rollout.deployment for rollout in list_living(session)}
    rows = {row.name: row for row in session.scalars(select(DeploymentRow))}
    for desired in _resolve_all(session):
        document = desired.deployment
        row = rows.get(document.name)
        if row is None:
            row = DeploymentRow(name=document.name, generation=0, observed_generation=0)
            session.add(row)
        elif _ids(row) == _desired_ids(desired) and document.name not in rolling:
            continue
        else:
            running = arm_of(_read_revisions(row, _revisions_by_id(session, [row])))
            desired = keep_equal(desired, running)
            desired = enter(
                session, document.name, desired, running,
                author=author, reason=reason, now_unix_ns=now_unix_ns,
            )  # fmt: skip
            if _ids(row) == _desired_ids(desired):
                continue
        _move(session, row, desired, author=author, reason=reason, now_unix_ns=now_unix_ns)
        moved.append(_read_deployment(row, _revisions_by_id(session, [row])))
    return moved


def adopt_candidate(session: Session, rollout: StoredRollout, now_unix_ns: int) -> None:
    """What was tried is what the deployment is, in the unit of work that promotes it."""
    row = session.get(DeploymentRow, rollout.deployment)
    if row is None:
        return
    desired = with_arm(_read_revisions(row, _revisions_by_id(session, [row])), rollout.candidate)
    why = f"rollout {rollout.number} promoted it: {rollout.created_reason}".rstrip(": ")
    _move(session, row, desired, author=rollout.created_by, reason=why, now_unix_ns=now_unix_ns)


def _resolve_all(session: Session) -> list[DesiredRevisions]:
    """What the latest document of each deployment stands for, by name."""
    latest = latest_ids(session)
    documents = read_revisions(
        session, [number for (kind, _), number in latest.items() if kind == Kind.DEPLOYMENT]
    )
    ordered = sorted(documents.values(), key=lambda each: each.name)
    references = {each.name: each.spec(DeploymentSpec).references() for each in ordered}
    pinned = find_ids(session, {each for of in references.values() for each in of.values()})
    found = {
        (kind, reference): pinned.get((kind, reference))
        if reference.number is not None
        else latest.get((kind, reference.name))
        for of in references.values()
        for kind, reference in of.values()
    }
    wanted = {number for number in found.values() if number is not None}
    revisions = read_revisions(session, wanted)
    return [_resolve(each, references[each.name], found, revisions) for each in ordered]


def _resolve(
    document: Revision,
    references: Mapping[str, tuple[Kind, Reference]],
    ids: Mapping[tuple[Kind, Reference], int | None],
    revisions: Mapping[int, Revision],
) -> DesiredRevisions:
    found: dict[str, Revision] = {}
    for field, (kind, reference) in references.items():
        number = ids[kind, reference]
        if number is None:
            raise UnresolvedReferenceError(document.name, kind, reference)
        found[field] = revisions[number]
    return DesiredRevisions(
        deployment=document,
        model=found["model"],
        engine_config=found["engine"],
        policy=found["policy"],
        contract=found.get("contract"),
    )


def _desired_ids(desired: DesiredRevisions) -> dict[str, int | None]:
    return {
        "revision_id": desired.deployment.id,
        "model_revision_id": desired.model.id,
        "engine_config_revision_id": desired.engine_config.id,
        "policy_revision_id": desired.policy.id,
        "contract_revision_id": desired.contract.id if desired.contract else None,
    }


def _ids(row: DeploymentRow | DeploymentChangeRow) -> dict[str, int | None]:
    return {
        "revision_id": row.revision_id,
        "model_revision_id": row.model_revision_id,
        "engine_config_revision_id": row.engine_config_revision_id,
        "policy_revision_id": row.policy_revision_id,
        "contract_revision_id": row.contract_revision_id,
    }


def _move(
    session: Session,
    row: DeploymentRow,
    desired: DesiredRevisions,
    *,
    author: str,
    reason: str,
    now_unix_ns: int,
) -> None:
    for column, revision_id in _desired_ids(desired).items():
        setattr(row, column, revision_id)
    row.generation += 1
    row.updated_at_unix_ns = now_unix_ns
    session.add(
        DeploymentChangeRow(
            deployment=row.name,
            generation=row.generation,
            **_desired_ids(desired),
            author=author,
            reason=reason[:1024],
            at_unix_ns=now_unix_ns,
        )
    )
    session.flush()


def _revisions_by_id(
    session: Session, rows: Iterable[DeploymentRow | DeploymentChangeRow]
) -> dict[int, Revision]:
    wanted = {number for row in rows for number in _ids(row).values() if number is not None}
    return read_revisions(session, wanted)


def _whole_revisions_by_id(
    session: Session, rows: Iterable[DeploymentRow]
) -> dict[int, Revision] | None:
    """None where one of them is no JSON at all: nobody can say which without asking one by one."""
    try:
        return _revisions_by_id(session, rows)
    except ValueError:
        return None


def _read_revisions(
    row: DeploymentRow | DeploymentChangeRow, revisions: dict[int, Revision]
) -> DesiredRevisions:
    contract_id = row.contract_revision_id
    return DesiredRevisions(
        deployment=revisions[row.revision_id],
        model=revisions[row.model_revision_id],
        engine_config=revisions[row.engine_config_revision_id],
        policy=revisions[row.policy_revision_id],
        contract=None if contract_id is None else revisions[contract_id],
    )


def _living(session: Session) -> dict[str, StoredRollout]:
    return {rollout.deployment: rollout for rollout in list_living(session)}


def _read_deployment(
    row: DeploymentRow, revisions: dict[int, Revision], rollout: StoredRollout | None = None
) -> DesiredDeployment:
    desired = _read_revisions(row, revisions)
    return DesiredDeployment(
        name=row.name,
        spec=desired.deployment.spec(DeploymentSpec),
        revisions=desired,
        generation=row.generation,
        observed_generation=row.observed_generation,
        updated_at_unix_ns=row.updated_at_unix_ns,
        rollout=rollout,
    )


def _read_change(row: DeploymentChangeRow, revisions: dict[int, Revision]) -> DeploymentChange:
    return DeploymentChange(
        name=row.deployment,
        generation=row.generation,
        revisions=_read_revisions(row, revisions),
        author=row.author,
        reason=row.reason,
        at_unix_ns=row.at_unix_ns,
    )
