"""The files that a scenario names: fits and traces."""

import hashlib
from pathlib import Path

from controlplane.specs.problem import Path as KeyPath
from controlplane.specs.problem import Problem
from controlplane.specs.scenario import CostSpec, Noise, ScenarioSpec
from controlplane.specs.scenario_traffic import ArrivalsSpec
from controlplane.specs.source import Source
from dataplane.simulation.clients import ClientBehaviour
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.cost import CostModel, LinearCost
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Fit, FitFileError, load_fit
from dataplane.simulation.fitting.surroundings import cold_start_of
from dataplane.simulation.replay import ReplaySpec as ReplayedTraffic
from dataplane.simulation.replay import TraceError, read_trace
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound


class ScenarioFiles:
    """Reads what a scenario names; what cannot be read is a problem at its place."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._fits: dict[str, Fit | None] = {}
        self._digests: dict[str, str] = {}
        self.problems: list[Problem] = []

    def cost(self, spec: CostSpec, seed: int) -> CostModel:
        """What steps take, drawn from `seed` where the fit is noisy; linear without a fit."""
        plain = self._plain_cost(spec, seed)
        drafts = spec.speculation
        if drafts is None:
            return plain
        of_round = SpeculativeRound(
            draft_steps=drafts.draft_steps,
            draft_cost=drafts.draft_cost,
            verify_cost=drafts.verify_cost,
        )
        return SpeculativeCost(plain, of_round, drafts.acceptance)

    def _plain_cost(self, spec: CostSpec, seed: int) -> CostModel:
        fit = self.fit(spec)
        if fit is None:
            return LinearCost(
                iteration=spec.iteration or 0,
                per_prompt_token=spec.per_prompt_token or 0,
                per_decode_step=spec.per_decode_step or 0,
                per_reread_token=spec.per_reread_token or 0,
                per_context_token=spec.per_context_token or 0,
            )
        return FittedCost.of(fit, seed if spec.noise is Noise.ON else None)

    def fit(self, spec: CostSpec) -> Fit | None:
        """None: it names none, or one that cannot be read, which is told once."""
        if spec.fit is None:
            return None
        if spec.fit not in self._fits:
            try:
                self._fits[spec.fit] = load_fit(self._folder / spec.fit)
                self._digest(spec.fit)
            except (OSError, FitFileError) as error:
                self._fits[spec.fit] = None
                self._note(("spec", "replicas", "cost", "fit"), error)
        return self._fits[spec.fit]

    def fitted_cold_start(self, spec: CostSpec) -> ColdStart:
        """As the fit measured it; no time at all without one."""
        fit = self.fit(spec)
        try:
            return ColdStart() if fit is None else cold_start_of(fit)
        except FitFileError as error:
            self._note(("spec", "replicas", "cost", "fit"), error)
            return ColdStart()

    def replay(
        self, position: int, spec: ArrivalsSpec, client: ClientBehaviour
    ) -> ReplayedTraffic | None:
        assert spec.replay is not None
        try:
            entries = read_trace(self._folder / spec.replay.file)
            self._digest(spec.replay.file)
        except (OSError, TraceError) as error:
            self._note(("spec", "arrivals", position, "replay", "file"), error)
            return None
        return ReplayedTraffic(
            entries=tuple(entries),
            starts_at=spec.start or 0.0,
            speed=spec.replay.speed,
            client=client,
            class_header=spec.replay.class_header,
            prefix_block=spec.replay.prefix_block,
        )

    def content(self, spec: ScenarioSpec) -> str:
        """A digest of the scenario and of the files that were read for it; its start apart."""
        written = spec.model_dump_json(by_alias=True, exclude={"starts_at"})
        lines = [written, *(f"{name} {digest}" for name, digest in sorted(self._digests.items()))]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _digest(self, name: str) -> None:
        with (self._folder / name).open("rb") as file:
            self._digests[name] = hashlib.file_digest(file, "sha256").hexdigest()

    def _note(self, path: KeyPath, error: Exception) -> None:
        said = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        self.problems.append(self._source.problem(path, said))
