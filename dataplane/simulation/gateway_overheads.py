"""The time that a gateway and what is around it take for a request, outside of steps.

    arrival ..before_admission.. admitted -> queue -> ..before_submission.. submitted
    first token ..before_first_write.. written       last token ..before_last_write.. written

Each gateway draws by itself, and each of the four from a stream of its own.
"""

from dataclasses import dataclass

from dataplane.simulation.distributions import Constant, Distribution
from dataplane.simulation.random_streams import random_stream

NO_TIME = Constant(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadPlan:
    """Seconds of each."""

    before_admission: Distribution = NO_TIME
    """The request is read, counted and decided about."""
    before_submission: Distribution = NO_TIME
    """From the slot until an idle engine begins a step."""
    before_first_write: Distribution = NO_TIME
    """From the selection of the first token."""
    before_last_write: Distribution = NO_TIME
    """From the selection of the last token, of an answer in one piece too."""


class GatewayOverheads:
    """What one gateway takes."""

    def __init__(self, plan: OverheadPlan, seed: int, gateway: int) -> None:
        self._plan = plan
        self._admission = random_stream(seed, "overheads", gateway, "admission")
        self._submission = random_stream(seed, "overheads", gateway, "submission")
        self._first_write = random_stream(seed, "overheads", gateway, "first write")
        self._last_write = random_stream(seed, "overheads", gateway, "last write")

    def before_admission(self) -> float:
        """Of the next request."""
        return self._plan.before_admission.draw(self._admission)

    def before_submission(self) -> float:
        """Of the next attempt."""
        return self._plan.before_submission.draw(self._submission)

    def before_first_write(self) -> float:
        """Of the next answer that begins."""
        return self._plan.before_first_write.draw(self._first_write)

    def before_last_write(self) -> float:
        """Of the next answer that ends."""
        return self._plan.before_last_write.draw(self._last_write)
