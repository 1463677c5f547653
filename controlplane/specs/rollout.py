"""How a Deployment moves to another Model, EngineConfig or AdmissionPolicy: in steps."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from controlplane.rollouts.analysis.comparison import AnalysisTerms
from controlplane.rollouts.analysis.measures import MEASURES, with_margins
from controlplane.rollouts.strategy import OnTimeout, Step, Strategy
from controlplane.specs.kind import SpecModel, nearest
from controlplane.specs.policy import check_header_name
from controlplane.specs.quantity import Duration, Share, Target


class RolloutStepSpec(SpecModel):
    """One share of the traffic for what is tried."""

    share: Share | None = Field(default=None, examples=["5%"])
    """Above 0%, and more than that of the step before."""
    shadow: bool = False
    """Instead of a share, of the first step: another AdmissionPolicy decides on every request, and
    enforces nothing. Where no other one is tried, the step is left out."""
    different_at_most: Share | None = Field(default=None, examples=["2%"])
    """Of a step in shadow: what is tried goes back once it surely decides otherwise on more of the
    requests. Without it, any share may differ."""
    for_: Duration = Field(default=60.0, alias="for", examples=["10m"])
    """How long it is looked at, at least."""
    pause: bool = False
    """Also where it does well, a person has to let it go on."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.shadow is (self.share is not None):
            raise ValueError("a step has either a share or shadow: true")
        if self.share == 0:
            raise ValueError("a share of 0% tries nothing; `shadow: true` only looks on")
        if self.different_at_most is not None and not self.shadow:
            raise ValueError("different_at_most is of steps with shadow: true")
        return self


class RolloutAnalysisSpec(SpecModel):
    """How the two arms are compared at each step."""

    min_requests: int = Field(default=200, ge=20, le=10_000_000)
    """Of each arm, before anything is said."""
    confidence: Target = 0.98
    """How sure verdicts are, of all measures, looks and steps together: of candidates that are no
    worse, at most the rest is rejected."""
    margins: dict[str, Share] = Field(default={}, examples=[{"ttft": "20%"}])
    """By measure, how much worse is no harm: of attainment, failures, cut and empty answers in
    points, of answer_length, ttft and tpot in parts of what it was."""
    max_burn_rate: float = Field(default=6.0, gt=0, le=1000, allow_inf_nan=False, examples=[14.4])
    """What is tried goes back once it surely spends an error budget of the contract this many times
    as fast as would last for its whole period, and surely faster than what runs."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = [measure.name for measure in MEASURES]
        for name, margin in self.margins.items():
            if name not in known:
                near = nearest(name, known)
                hint = f"; did you mean {near}?" if near else "."
                raise ValueError(f"no measure {name!r}{hint} Measures: {', '.join(known)}")
            if not margin:
                raise ValueError(f"a margin of 0% for {name} could never be shown to be kept")
        return self


class RolloutSpec(SpecModel):
    """Steps, what is compared at each of them, and what becomes of one that nothing decides."""

    steps: list[RolloutStepSpec] = Field(
        min_length=1,
        max_length=20,
        examples=[[{"share": "5%", "for": "10m"}, {"share": "50%", "for": "10m"}]],
    )
    """One after the other. After the last, what was tried is what runs."""
    timeout: Duration = 6 * 3600.0
    """Of one step."""
    on_timeout: OnTimeout = OnTimeout.PAUSE
    """What becomes of a step that nothing was decided about by then: it waits for a person, or the
    rollout is aborted."""
    sticky_header: Annotated[str, AfterValidator(check_header_name)] = "x-session-id"
    """Requests of a tenant with the same value of this header stay in one arm; without it those
    with the same `prompt_cache_key`, `safety_identifier` or `user`."""
    analysis: RolloutAnalysisSpec = RolloutAnalysisSpec()
    """How much has to be known, and how much worse is no harm."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.strategy
        return self

    def without_shadow(self) -> "RolloutSpec":
        """The same where no other policy is tried."""
        return self.model_copy(update={"steps": [step for step in self.steps if not step.shadow]})

    @property
    def terms(self) -> AnalysisTerms:
        """As arms are compared by them."""
        return AnalysisTerms(
            min_requests=self.analysis.min_requests,
            confidence=self.analysis.confidence,
            num_steps=len(self.steps),
            measures=with_margins(self.analysis.margins),
            max_burn_rate=self.analysis.max_burn_rate,
        )

    @property
    def strategy(self) -> Strategy:
        """As a rollout goes by it. Raises ValueError for one that cannot work."""
        return Strategy(
            steps=tuple(
                Step(
                    share=step.share or 0.0,
                    seconds=step.for_,
                    waits_for_person=step.pause,
                    is_shadow=step.shadow,
                    different_at_most=step.different_at_most,
                )
                for step in self.steps
            ),
            timeout_seconds=self.timeout,
            on_timeout=self.on_timeout,
        )
