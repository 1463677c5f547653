"""Which promises only clients can say were kept."""

import json

import pytest

from controlplane.slo.client_reported import client_reported, without_client_reported
from controlplane.slo.promised import promises_of
from controlplane.specs.contract import SLOContractSpec


def _contract(boundary: str, together: list[str]) -> SLOContractSpec:
    objectives = [
        {"signal": "ttft", "at_most": "300ms", "for": "99%"},
        {"signal": "max_itl", "at_most": "300ms", "for": "99%"},
        {"signal": "acceptance", "for": "99%"},
        {"signal": "availability", "for": "99%"},
    ]
    promised = {"objectives": objectives, "together": {"of": together, "for": "95%"}}
    spec = {"boundary": boundary, "window": "30d", "classes": {"interactive": promised}}
    return SLOContractSpec.model_validate_json(json.dumps(spec))


@pytest.mark.parametrize(
    ("boundary", "together", "reported"),
    [
        ("server", ["ttft", "availability"], set()),
        ("engine", ["ttft", "availability"], set()),
        ("client", ["ttft", "availability"], {"ttft", "together"}),
        ("client", ["acceptance", "availability"], {"ttft"}),
    ],
)
def test_only_latencies_at_the_client_are_and_what_goes_together_with_one(
    boundary: str, together: list[str], reported: set[str]
) -> None:
    spec = _contract(boundary, together)
    assert client_reported(spec) == {("interactive", objective) for objective in reported}
    kept, notes = without_client_reported(list(promises_of("chat", "chat@1", spec)), spec)
    assert not reported & {each.objective for each in kept}
    assert len(kept) + len(notes) == 5
    assert len(notes) == len(reported)
