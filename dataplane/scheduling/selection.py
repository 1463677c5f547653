"""What the sequences of a step select: checked before anything is committed."""

from collections.abc import Mapping

from dataplane.scheduling.cohort import by_rank
from dataplane.scheduling.errors import SchedulerError
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan


def check_scripted(plan: StepPlan, unscripted: list[Sequence]) -> None:
    """Raises SchedulerError when a live sequence of `plan` selects, and has no script.

    `unscripted` are those of the cohort, live all of them.
    """
    apart = [
        c.sequence
        for c in plan.chunks_apart
        if c.sequence.script is None and c.selects_token and not c.sequence.is_finished
    ]
    if unscripted or apart:
        oldest = min([*unscripted, *apart], key=by_rank)
        raise SchedulerError(
            f"sequence {oldest.sequence_id} has no script; say which token it selected"
        )


def check_selected(plan: StepPlan, selected: Mapping[int, int]) -> None:
    """Raises SchedulerError for tokens of other sequences than those that select, or another
    token than a script says."""
    selecting = {c.sequence.sequence_id: c.sequence for c in plan.chunks if c.selects_token}
    live = [sequence for sequence in selecting.values() if not sequence.is_finished]
    if not {s.sequence_id for s in live} <= selected.keys() <= selecting.keys():
        raise SchedulerError(
            f"tokens were selected for sequences {sorted(selected)}, "
            f"expected for {sorted(selecting)}"
        )
    for sequence in live:
        _check_script(sequence, selected[sequence.sequence_id])


def _check_script(sequence: Sequence, token_id: int) -> None:
    if sequence.script is None:
        return
    scripted = sequence.script[sequence.num_output_tokens]
    if scripted != token_id:
        raise SchedulerError(
            f"token {token_id} was selected for sequence {sequence.sequence_id}, whose script "
            f"says {scripted}"
        )
