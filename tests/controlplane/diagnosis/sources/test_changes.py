"""Notes of what was changed name versions."""

import pytest

from controlplane.diagnosis.sources.changes import change_of


@pytest.mark.parametrize(
    ("what", "versions"),
    [
        ("engine 0.5.3 -> 0.5.4", ("0.5.3", "0.5.4")),
        ("image vllm/vllm-openai:v0.22.1rc1", ("0.22.1rc1",)),
        ("sglang 0.5.2.post1 instead of 0.5.1", ("0.5.2.post1", "0.5.1")),
        ("llama.cpp b7100 to b7200", ("b7100", "b7200")),
        ("replicas 1 -> 2", ()),
        ("node 10.0.0.7 drained", ()),
        ("fp8 weights, tp4", ()),
    ],
)
def test_versions_are_found_in_a_note(what: str, versions: tuple[str, ...]) -> None:
    change = change_of(what, -60.0)
    assert (change.at, change.what, change.versions) == (-60.0, what, versions)
