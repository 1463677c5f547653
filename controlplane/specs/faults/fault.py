"""What faults have in common. Each compiles to a fault of `dataplane.simulation.faults`."""

from typing import Annotated, ClassVar

from pydantic import Field

from controlplane.specs.kind import SpecModel
from controlplane.specs.names import Name
from controlplane.specs.quantity import Duration, Share
from dataplane.simulation.faults.fault import Fault

Multiple = Annotated[float, Field(ge=0, le=10_000)]
Part = Annotated[float, Field(ge=0, le=1)]
Tokens = Annotated[int, Field(ge=0, le=10_000_000)]
Names = Annotated[tuple[Name, ...], Field(max_length=1000)]


class FaultFields(SpecModel):
    """What every fault has."""

    makes: ClassVar[type[Fault]]

    at: Duration | None = None
    """When it begins; None: it is there from the beginning."""
    lasts: Duration | None = Field(default=None, alias="for")
    """How long it stays; None: to the end."""
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1)
    """Of what it draws; None: it follows from the scenario's."""

    def compile(self, seed: int) -> Fault:
        """The fault, which draws from `seed` where it names none of its own."""
        own = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name not in ("fault", "at", "lasts", "seed")
        }
        return self.makes(
            at=self.at or 0.0,
            duration=self.lasts,
            seed=seed if self.seed is None else self.seed,
            **own,
        )


class ReplicaFaultFields(FaultFields):
    """What faults of replicas have."""

    replica: Name | None = None
    """Which replica; None: every one."""


class CallFaultFields(FaultFields):
    """What faults of calls have."""

    tenants: Names = ()
    """Whose calls; none named: everybody's."""
    classes: Names = ()
    """Calls of which request classes; none named: of all."""
    share: Share = 1.0
    """How many of those calls."""
