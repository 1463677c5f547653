"""Names that leave a process."""

import re
from typing import Any

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes, url_attributes

from dataplane import genai, names


def _constants(module: object) -> dict[str, Any]:
    return {key: value for key, value in vars(module).items() if key.isupper()}


def _strings(prefix: str) -> dict[str, str]:
    found = {k: v for k, v in _constants(names).items() if k.startswith(prefix)}
    assert found, prefix
    return found


def test_no_name_is_given_twice() -> None:
    for prefix in ("LABEL_", "SPAN_", "ATTRIBUTE_", "GATEWAY_", "REPLICA_"):
        values = list(_strings(prefix).values())
        assert len(values) == len(set(values)), prefix


def test_metric_names_follow_prometheus_and_say_their_process() -> None:
    for process in ("GATEWAY", "REPLICA"):
        for name in _strings(f"{process}_").values():
            assert re.fullmatch(rf"pilothouse_{process.lower()}(_[a-z0-9_]+)?", name)
            assert not name.endswith(("_ms", "_count", "_sum", "_bucket", "_info"))


def test_a_counter_says_total_in_its_name_and_in_its_constant() -> None:
    for process in ("GATEWAY", "REPLICA"):
        for constant, name in _strings(f"{process}_").items():
            assert constant.endswith("_TOTAL") is name.endswith("_total"), constant


def test_no_label_names_a_tenant() -> None:
    assert not [name for name in _strings("LABEL_").values() if "tenant" in name]


def test_our_attributes_live_in_our_namespace() -> None:
    for name in _strings("ATTRIBUTE_").values():
        assert re.fullmatch(r"pilothouse(\.[a-z0-9_]+)+", name)


def test_the_names_of_opentelemetry_are_those_of_the_installed_convention() -> None:
    conventions = (gen_ai_attributes, error_attributes, http_attributes, url_attributes)
    said = {value for module in conventions for value in _constants(module).values()}
    operations = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    ours = set(_constants(genai).values())
    assert ours
    assert ours - said - operations == set()
