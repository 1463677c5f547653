"""Every route of the API against its own description, over real HTTP: with calls that fit it and
calls that do not. No call may be answered with a 5xx, or with what the description does not say.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.controlplane.control_plane_server import serve_control_plane

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]
STREAMS = ("/api/v1/events", "/api/v1/gateways/{name}/snapshots")
"""They end with the control plane; their own tests read them."""


EXAMPLES = 6
"""For each route, of each kind of call."""


@pytest.fixture
def description(tmp_path: Path) -> Iterator[BaseSchema]:
    with serve_control_plane(tmp_path) as (url, _):
        yield schemathesis.openapi.from_url(f"{url}/openapi.json").exclude(path=list(STREAMS))


def test_every_call_is_answered_as_described(description: BaseSchema) -> None:
    found = []
    for result in description.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            found += try_calls(operation, mode)
    assert "\n\n".join(found) == ""


def try_calls(operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode) -> list[str]:
    """What was wrong with the answers; each kind of it once, in its smallest form."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def try_call(case: "Case[Any]") -> None:
        case.call_and_validate(checks=CHECKS, timeout=20)

    try:
        try_call()
    except Unsatisfiable:
        return []  # it takes nothing that could be wrong
    except FailureGroup as failures:
        return [f"{operation.label}: {failure}" for failure in failures.exceptions]
    return []
