"""The machine that is simulated: what its steps cost, and what its start takes."""

from dataclasses import dataclass
from pathlib import Path

from dataplane.simulation.cost import CostModel
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Fit, load_fit
from dataplane.simulation.fitting.noise import noise_seed
from dataplane.simulation.fitting.surroundings import cold_start_of
from pilothouse_simulator.settings import SimulatorSettings, StartSeconds


@dataclass(frozen=True, slots=True)
class Machine:
    """As the settings say, or the fit that they name. Costs are in seconds."""

    cost: CostModel
    start_seconds: StartSeconds


def find_machine(settings: SimulatorSettings, replica_id: str) -> Machine:
    """That of a replica. Raises FitFileError (a ValueError) for a fit that cannot be read.

    Of a fit it takes what a replica lives: steps with what they differ by, and the stages of a
    start. The overheads that a fit holds are of the gateway and of the way to it, which are real
    here and take time of their own.
    """
    if settings.fit is None:
        return Machine(settings.cost_model_ms.to_cost(), settings.start_seconds or StartSeconds())
    fit = load_fit(Path(settings.fit))
    seed = None if settings.noise == "off" else noise_seed(settings.seed, replica_id)
    return Machine(FittedCost.of(fit, seed), settings.start_seconds or _fitted_seconds(fit))


def _fitted_seconds(fit: Fit) -> StartSeconds:
    """The medians."""
    start = cold_start_of(fit)
    return StartSeconds(
        acquire=start.acquire, load=start.load, compile=start.compile, warm_up=start.warm_up
    )
