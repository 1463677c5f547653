"""Any requests, on the native engine; the model is real, only small."""

from typing import Any

from pilothouse_paged.core import PagedEngineCore
from tests.dataplane.host.any_requests import FEW_EXAMPLES, AnyRequests
from tests.plugins.pilothouse_paged.tiny_model import build_tiny_core


class AnyRequestsOfThePagedEngine(AnyRequests):
    """Tokens come from a model."""

    def build_core(self, **settings: Any) -> PagedEngineCore:
        return build_tiny_core(**settings)


TestAnyRequests = AnyRequestsOfThePagedEngine.TestCase
TestAnyRequests.settings = FEW_EXAMPLES
