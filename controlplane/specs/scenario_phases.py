"""The part of a Scenario that gives each replica one phase: prompts here, decoding there."""

from pydantic import Field

from controlplane.specs.kind import SpecModel
from dataplane.simulation.link import GIGA
from dataplane.simulation.phase_split import PhaseSplit
from dataplane.simulation.phased_replicas import PhasePlan


class KVTransferSpec(SpecModel):
    """What is between the phases: one link for all transfers, first come, first served."""

    gigabits_per_second: float = Field(gt=0, le=1_000_000, examples=[25.0])
    """What the link carries, for all of them together."""
    bytes_per_token: float = Field(gt=0, le=1_000_000_000, examples=[131072])
    """KV of each prompt token: 2 * layers * KV heads * head size * bytes of a value."""


class PhasesSpec(SpecModel):
    """Some replicas compute prompts and select the first token, the others decode; the KV of a
    prompt is sent from one to the other, once for all answers to it, and both hold blocks for what
    they have of it."""

    prefill: int = Field(ge=1, le=10_000, examples=[2])
    """Replicas that compute prompts: the first ones."""
    decode: int = Field(ge=1, le=10_000, examples=[6])
    """Replicas that decode: those behind them."""
    transfer: KVTransferSpec
    """What is between them."""

    def check_count(self, count: int) -> None:
        """Raises ValueError unless so many replicas have a phase each."""
        if self.prefill + self.decode != count:
            raise ValueError(
                f"phases have {self.prefill} prefill and {self.decode} decode replicas, and count "
                f"is {count}; write count: {self.prefill + self.decode}"
            )

    def compile(self) -> PhasePlan:
        """What the simulation runs."""
        return PhasePlan(
            split=PhaseSplit(prefill=self.prefill, decode=self.decode),
            bits_per_second=self.transfer.gigabits_per_second * GIGA,
            bytes_per_token=self.transfer.bytes_per_token,
        )
