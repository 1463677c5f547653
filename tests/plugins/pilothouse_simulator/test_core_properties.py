"""Any requests, on the simulator."""

from typing import Any

from pilothouse_simulator.core import SimulatorCore
from tests.dataplane.host.any_requests import FEW_EXAMPLES, AnyRequests
from tests.plugins.pilothouse_simulator.virtual_core import build_core


class AnyRequestsOfTheSimulator(AnyRequests):
    """Answers end after a few tokens."""

    def build_core(self, **settings: Any) -> SimulatorCore:
        return build_core(output_tokens={"median": 4.0, "sigma": 0.7}, **settings)


TestAnyRequests = AnyRequestsOfTheSimulator.TestCase
TestAnyRequests.settings = FEW_EXAMPLES
