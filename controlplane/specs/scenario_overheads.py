"""The part of a Scenario that says what gateways take for a request, outside of steps."""

from controlplane.specs.kind import SpecModel
from controlplane.specs.scenario_traffic import WaitSpec


class OverheadsSpec(SpecModel):
    """How long the gateway and what is around it take; what is left out takes no time."""

    before_admission: WaitSpec | None = None
    """From the first byte until the request is read, counted and decided about."""
    before_submission: WaitSpec | None = None
    """From the slot until an engine that has nothing to do begins a step."""
    before_first_write: WaitSpec | None = None
    """From the selection of the first token until it is written."""
    before_last_write: WaitSpec | None = None
    """From the selection of the last token until all is written."""
