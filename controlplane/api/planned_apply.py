"""Applying a plan exactly: refused where it would not do what it said."""

from collections.abc import Sequence

from fastapi import HTTPException
from sqlalchemy.orm import Session

from controlplane.rollouts.change_plan.change_plan import PlannedApply
from controlplane.rollouts.change_plan.world import moved_since
from controlplane.store.revisions import Applied
from controlplane.store.stand import read_world

_MOST_NAMED = 10


def require_world(session: Session, planned: PlannedApply) -> None:
    """Raises HTTPException with 409, naming what has moved since the plan was made."""
    moved = moved_since(planned.world, read_world(session))
    if moved:
        _refuse("the world has moved since this plan was made", moved)


def require_results(applied: Sequence[Applied], planned: PlannedApply) -> None:
    """What came of it is what the plan said. Raises HTTPException with 409."""
    results = {f"{each.kind}/{each.name}": f"{each.number} {each.digest}" for each in applied}
    wrong = sorted(
        name
        for name in {*results, *planned.results}
        if results.get(name) != planned.results.get(name)
    )
    if wrong:
        _refuse("these files are not what this plan was made of", wrong)


def _refuse(what: str, named: Sequence[str]) -> None:
    more = len(named) - _MOST_NAMED
    listed = "; ".join(named[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    raise HTTPException(409, f"{what}: {listed}. Nothing was applied: plan again")
