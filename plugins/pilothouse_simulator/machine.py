"""The machine that is simulated: what its steps cost, and what its start takes."""

from dataclasses import dataclass
from pathlib import Path

from dataplane.simulation.cost import CostModel
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Fit, load_fit
from pilothouse_simulator.settings import SimulatorSettings, StartSeconds


@dataclass(frozen=True, slots=True)
class Machine:
    """As the settings say, or the fit that they name. Costs are in seconds."""

    cost: CostModel
    start_seconds: StartSeconds


def find_machine(settings: SimulatorSettings) -> Machine:
    """Raises FitFileError (a ValueError) for a fit that cannot be read."""
    if settings.fit is None:
        return Machine(settings.cost_model_ms.to_cost(), settings.start_seconds or StartSeconds())
    fit = load_fit(Path(settings.fit))
    return Machine(
        FittedCost.of(fit, settings.seed), settings.start_seconds or _fitted_seconds(fit)
    )


def _fitted_seconds(fit: Fit) -> StartSeconds:
    """The medians; compiling counts as loading."""
    median_by_stage = {stage: spread.median for stage, spread in fit.cold_start.items()}
    return StartSeconds(
        acquire=median_by_stage.get("acquire", 0.0),
        load=median_by_stage.get("load", 0.0) + median_by_stage.get("compile", 0.0),
        warm_up=median_by_stage.get("warm_up", 0.0),
    )
