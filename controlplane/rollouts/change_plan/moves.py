"""What of a deployment moves, and whether at once or in steps."""

from dataclasses import dataclass
from enum import StrEnum


class Way(StrEnum):
    """How something moves."""

    AT_ONCE = "at_once"
    ROLLOUT = "rollout"
    """In steps, compared with what runs, and back where it does worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionMove:
    """One document of a deployment that becomes another revision."""

    field: str
    """deployment, model, engine, policy or contract."""
    before: str | None
    after: str | None
    """As `name@number`; None: it has none."""
    way: Way


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """One step of a rollout that would begin."""

    share: float
    """0 in shadow."""
    seconds: float
    waits_for_person: bool
    is_shadow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRollout:
    """A rollout that is under way, and that applying would end."""

    number: int
    state: str
    """promoted or aborted."""
    reason: str


def moves_of(
    before: dict[str, str | None], stands: dict[str, str | None], wanted: dict[str, str | None]
) -> tuple[RevisionMove, ...]:
    """What differs: `before` ran until now, `stands` would run at once, and `wanted` is what a
    rollout that would begin leads to; all by field."""
    moves = []
    for field, old in before.items():
        if stands[field] != old:
            moves.append(
                RevisionMove(field=field, before=old, after=stands[field], way=Way.AT_ONCE)
            )
        if wanted[field] != stands[field]:
            moves.append(
                RevisionMove(
                    field=field, before=stands[field], after=wanted[field], way=Way.ROLLOUT
                )
            )
    return tuple(moves)
