"""What a fit says of a replica besides its steps, for a fleet: overheads and the cold start."""

from dataplane.simulation.cold_start import ColdStart, StartStage
from dataplane.simulation.distributions import Constant, Distribution, MedianAndTail
from dataplane.simulation.fitting.document import Fit, FitFileError, Spread
from dataplane.simulation.gateway_overheads import NO_TIME, OverheadPlan

_STAGES = tuple(stage for stage in StartStage if stage is not StartStage.READY)


def overheads_of(fit: Fit, is_noisy: bool) -> OverheadPlan | None:
    """As they were measured, or their medians alone. None where none was."""
    measured = fit.overheads
    # A step's time holds what lies between two, and before the first of an idle engine nothing
    # does.
    gap = 0.0 if measured.between_steps is None else measured.between_steps.median
    plan = OverheadPlan(
        before_admission=_distribution(measured.arrival_to_admission, is_noisy),
        before_submission=_distribution(measured.admission_to_idle_engine, is_noisy, gap),
        before_first_write=_distribution(measured.selection_to_first_write, is_noisy),
        before_last_write=_distribution(measured.finish_to_last_write, is_noisy),
    )
    return None if plan == OverheadPlan() else plan


def cold_start_of(fit: Fit) -> ColdStart:
    """The median of each stage: starts are too few for more. Raises FitFileError for a stage
    that nobody knows."""
    strangers = sorted(set(fit.cold_start) - set(_STAGES))
    if strangers:
        raise FitFileError(
            f"cold_start has the stage {strangers[0]}, which is none of {', '.join(_STAGES)}; "
            f"correct its name in the file, or say yourself what a start takes: cold_start of a "
            f"Scenario, start_seconds of the engine simulator"
        )
    return ColdStart(**{stage: spread.median for stage, spread in fit.cold_start.items()})


def _distribution(spread: Spread | None, is_noisy: bool, less: float = 0.0) -> Distribution:
    """`less` is taken off, down to no time at all."""
    if spread is None or spread.p95 <= less:
        return NO_TIME
    median = max(0.0, spread.median - less)
    if not is_noisy:
        return Constant(median)
    return MedianAndTail(median=median, p95=max(median, spread.p95 - less))
