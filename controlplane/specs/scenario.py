"""Scenario: a fleet and its traffic in virtual time. A file for `pilothouse simulate`, which is
never applied: it changes nothing and has no revisions.

Policy, contract and tenants are written as in the kinds that are applied, so that what was tried
in a scenario can be put into force by moving it.
"""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.kind import SpecModel
from controlplane.specs.names import Name
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.quantity import Duration
from controlplane.specs.scenario_faults import FaultSpec, check_faults
from controlplane.specs.scenario_overheads import OverheadsSpec
from controlplane.specs.scenario_phases import PhasesSpec
from controlplane.specs.scenario_traffic import ArrivalsSpec, ClientSpec
from controlplane.specs.tenant import TenantSpec
from dataplane.latency import Boundary
from dataplane.simulation.fleet_scenario import name_replicas

SCENARIO = "Scenario"
"""The kind."""

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z")


def check_instant(text: str) -> str:
    """Raises ValueError unless it is a moment in UTC."""
    if not _INSTANT.fullmatch(text):
        raise ValueError(f"{text!r} is no moment in UTC; write it as 2026-01-01T00:00:00Z")
    parse_instant(text)
    return text


def parse_instant(text: str) -> int:
    """Nanoseconds since 1970. Raises ValueError for a day that does not exist."""
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return round(moment.timestamp()) * 10**9


Instant = Annotated[str, AfterValidator(check_instant)]


class SpeculationSpec(SpecModel):
    """Decode steps that draft some tokens with a small model and verify them in one step."""

    draft_steps: int = Field(ge=1, le=1000, examples=[4])
    """Tokens that a round drafts."""
    draft_cost: float = Field(ge=0, le=1000, examples=[0.1])
    """Of one drafted token, in decode steps of the large model."""
    verify_cost: float = Field(default=1.0, gt=0, le=1000)
    """Of verifying all of them, likewise."""
    acceptance: float = Field(ge=0, le=1, examples=[0.8])
    """How likely a draft is accepted when all before it were."""


class Noise(StrEnum):
    """How a fit is taken."""

    ON = "on"
    """As it was measured, drawn by the seed."""
    OFF = "off"
    """Steps take what their work says, and overheads their median."""


class CostSpec(SpecModel):
    """What a step takes: each part of its work the same, or as a fit says. All durations."""

    iteration: Duration | None = Field(default=None, examples=["8ms"])
    """Of every step."""
    per_prompt_token: Duration | None = None
    """Of each prompt token that it computes; None: nothing. So for those below."""
    per_decode_step: Duration | None = None
    """Of each sequence that it decodes a token of."""
    per_reread_token: Duration | None = None
    """Of each token before the start of a continued prefill: its KV is read again."""
    per_context_token: Duration | None = None
    """Of each token that a decode step attends to."""
    fit: str | None = Field(default=None, min_length=1, max_length=4096, examples=["h100.fit.json"])
    """A file that `pilothouse fit` wrote, found from the folder of the scenario. What it says
    of overheads and of starts holds too, unless `gateways.overheads` or `cold_start` is given."""
    noise: Noise = Noise.ON
    """Whether steps and overheads vary as those that were fitted."""
    speculation: SpeculationSpec | None = None
    """What speculation makes of decode steps; None: each is a step of its own."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        others = ("fit", "noise", "speculation")
        parts = [name for name in self.model_fields_set if name not in others]
        if self.fit is None and self.iteration is None:
            raise ValueError("needs iteration, such as iteration: 8ms, or fit: a file")
        if self.fit is None and self.noise is Noise.OFF:
            raise ValueError("noise is of a fit, and parts have none; leave out noise")
        if self.fit is not None and parts:
            raise ValueError(f"a fit says what a step takes; leave out {', '.join(sorted(parts))}")
        return self


class WeightsSpec(SpecModel):
    """Weights that come over a link which all starting replicas share."""

    gigabytes: float = Field(ge=0, le=1_000_000, examples=[16.0])
    """Of one replica; 10**9 bytes each."""
    gigabits_per_second: float = Field(gt=0, le=1_000_000, examples=[25.0])
    """What the link carries, for all of them together."""


class ColdStartSpec(SpecModel):
    """How long the stages of a replica's start take; what is left out takes no time.

    Not given at all, the stages take the medians of the fit that is the cost.
    """

    acquire: Duration | None = None
    """Until it has its machine and device."""
    load: Duration | None = None
    """Until its weights are in memory; with `weights`, what that takes besides."""
    weights: WeightsSpec | None = None
    """Where they come from; None: from where nobody else is in the way."""
    compile: Duration | None = None
    """Until its kernels are compiled, or captured."""
    warm_up: Duration | None = None
    """Until it has answered its first token."""


class ReplicasSpec(SpecModel):
    """The replicas: all alike, or of two phases."""

    count: int = Field(ge=0, le=10_000, examples=[8])
    """How many there are."""
    max_num_seqs: int = Field(ge=1, le=100_000, examples=[64])
    """Sequences that one works on at once."""
    max_num_batched_tokens: int = Field(ge=1, le=10_000_000, examples=[2048])
    """Tokens of one step, prompt and decode together."""
    max_prefill_tokens_per_step: int | None = Field(default=None, ge=1, le=10_000_000)
    """Prompt tokens of one step; None: only the bound above."""
    max_model_len: int = Field(ge=2, le=100_000_000, examples=[8192])
    """Prompt plus output tokens of one sequence."""
    num_blocks: int = Field(ge=1, le=100_000_000, examples=[8192])
    """Blocks of its KV cache."""
    block_size: int = Field(default=16, ge=1, le=4096)
    """Tokens of a block."""
    prefix_caching: bool = True
    """Whether it finds the beginnings of prompts again."""
    cost: CostSpec
    """What a step takes."""
    cold_start: ColdStartSpec = ColdStartSpec()
    """What its start takes."""
    start_cold: int = Field(default=0, ge=0, le=10_000)
    """How many of them, from the last, begin their start only when the scenario begins."""
    phases: PhasesSpec | None = None
    """How many of them do which phase; None: each computes prompts and decodes."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, but each of "
                f"max_num_seqs {self.max_num_seqs} sequences decodes one token a step; raise it"
            )
        if self.start_cold > self.count:
            raise ValueError(f"start_cold is {self.start_cold}, of {self.count} replicas")
        if self.phases is not None:
            self.phases.check_count(self.count)
        return self


class GatewaysSpec(SpecModel):
    """The gateways: all alike; calls go to one after the other."""

    count: int = Field(default=1, ge=1, le=1000)
    """How many there are. None knows what another has sent to a replica."""
    surplus_slots: int = Field(default=2, ge=0, le=100_000)
    """Requests that a replica is given beyond its active sequences, so that no step runs short."""
    unserved: Duration = 5.0
    """How long a request waits while no replica can be reached."""
    overheads: OverheadsSpec | None = None
    """What they take for a request; None: what the fit that is the cost says, or no time."""
    release: Duration = 30.0
    """An engine that has not confirmed an end by then is no longer waited for."""
    write: Duration = 60.0
    """A client that takes no byte for so long counts as gone."""


class ScenarioSpec(SpecModel):
    """What is simulated."""

    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    """The same seed gives the same bytes."""
    duration: Annotated[Duration, Field(examples=["10m"])]
    """How long requests arrive; those in flight then are waited for."""
    starts_at: Instant = "2026-01-01T00:00:00Z"
    """The moment in UTC from which records count."""
    gateways: GatewaysSpec = GatewaysSpec()
    """The gateways."""
    replicas: ReplicasSpec
    """The replicas."""
    policy: AdmissionPolicySpec
    """As the spec of an AdmissionPolicy."""
    contract: SLOContractSpec | None = None
    """As the spec of an SLOContract; None: nothing is promised."""
    tenants: dict[Name, TenantSpec] = Field(default_factory=dict)
    """As the specs of Tenants, by name."""
    clients: dict[Name, ClientSpec] = Field(default_factory=dict)
    """Kinds of clients that arrivals name."""
    arrivals: Annotated[
        tuple[ArrivalsSpec, ...],
        Field(
            min_length=1,
            max_length=1000,
            examples=[
                [
                    {
                        "name": "chat",
                        "poisson": "5/s",
                        "prompt": {"median": 300, "sigma": 0.8},
                        "output": {"median": 100, "sigma": 0.8},
                    }
                ]
            ],
        ),
    ]
    """Kinds of traffic, all at once."""
    faults: Annotated[
        tuple[FaultSpec, ...],
        Field(max_length=1000, examples=[[{"fault": "hung_replica", "at": "30s", "for": "1m"}]]),
    ] = ()
    """What goes wrong, each with `fault`, and with `at`, `for` and `intensity` where it matters."""

    @model_validator(mode="after")
    def _knows_what_it_names(self) -> Self:
        names = [arrivals.name for arrivals in self.arrivals]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"arrivals named twice: {', '.join(twice)}")
        for arrivals in self.arrivals:
            _check_known(arrivals.name, "clients", arrivals.clients, self.clients)
            known = {"default": None, **self.tenants}
            _check_known(arrivals.name, "tenants", arrivals.tenants, known)
            if arrivals.num_sequences is not None:
                _check_several_answers(arrivals.name, self.replicas)
        check_faults(
            self.faults,
            name_replicas(self.replicas.count),
            {"default", *self.tenants},
            [request_class.name for request_class in self.policy.classes],
            is_speculative=self.replicas.cost.speculation is not None,
            has_link=self.replicas.cold_start.weights is not None,
            has_phases=self.replicas.phases is not None,
        )
        if self.contract is not None and self.contract.boundary is Boundary.CLIENT:
            raise ValueError(
                "contract.boundary is client, and simulated clients report nothing; use server"
            )
        return self


def _check_known(arrivals: str, what: str, named: dict[str, float], known: dict[str, Any]) -> None:
    strangers = [name for name in named if name not in known]
    if strangers:
        valid = ", ".join(known) or "none; add them"
        raise ValueError(
            f"arrivals {arrivals} name {', '.join(strangers)}, which is none of {what}: {valid}"
        )


def _check_several_answers(arrivals: str, replicas: ReplicasSpec) -> None:
    if not replicas.prefix_caching:
        raise ValueError(
            f"arrivals {arrivals} ask for several answers, whose sequences share the blocks of "
            f"their prompt; set replicas.prefix_caching to true"
        )
