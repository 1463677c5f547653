"""Whether a class's `match` holds for a recorded request: yes, no, or nobody can tell.

A row keeps less than a rule may read: no headers, nothing of what the caller asked for. What is
missing is missing from what CEL is given, too, so that an expression is decided where the rest of
it decides (`tenant.tier == "gold" || request.headers["x"] == "y"`), and is unknown otherwise.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from cel_expr_python import cel

from controlplane.rollouts.change_plan.recorded import RecordedRequest
from dataplane.admission.match_reads import reads_of
from dataplane.policy import TenantPolicy

_NEVER_RECORDED = frozenset({"stream", "max_output_tokens"})
# Asked of what is missing, `has` would say no, where nobody knows.
_ASKS_FOR_MISSING = re.compile(r"\bhas\s*\(\s*request\s*\.")


class RuleTruth:
    """One expression, to be asked of many requests; what was found is remembered."""

    def __init__(self, expression: str, deployment: str) -> None:
        self._expression = _environment().compile(expression)
        self._asks_for_missing = _ASKS_FOR_MISSING.search(expression) is not None
        self._deployment = deployment
        self._found: dict[tuple[object, ...], bool | None] = {}

    def holds(self, tenant: TenantPolicy, request: RecordedRequest) -> bool | None:
        """None: it rests on what was not recorded."""
        if self._asks_for_missing:
            return None
        values = self._request(request)
        key = (tenant.name, tenant.tier, *values.items())
        if key not in self._found:
            self._found[key] = self._ask(tenant, values)
        return self._found[key]

    def _request(self, request: RecordedRequest) -> dict[str, Any]:
        """What is known of it, as the gateway's own matching names it."""
        values: dict[str, Any] = {}
        if request.num_prompt_tokens is not None:
            values["num_prompt_tokens"] = request.num_prompt_tokens
        # Callers name the deployment or its model: where both are called the same, it is known.
        if request.model_name == self._deployment:
            values["model"] = self._deployment
        return values

    def _ask(self, tenant: TenantPolicy, values: Mapping[str, Any]) -> bool | None:
        data = {"tenant": {"name": tenant.name, "tier": tenant.tier}, "request": dict(values)}
        try:
            value = self._expression.eval(_environment().Activation(data=data)).plain_value()
        except RuntimeError:  # more steps than CEL takes
            return None
        return value if isinstance(value, bool) else None  # an error is a text


def unrecorded_reads(expression: str) -> tuple[str, ...]:
    """What it reads that rows do not keep, as a document names it."""
    reads = reads_of([expression])
    fields = [f"request.{name}" for name in sorted(reads.fields & _NEVER_RECORDED)]
    if reads.headers is None:
        fields.append("request.headers")
    else:
        fields += [f'request.headers["{name}"]' for name in sorted(reads.headers)]
    return tuple(fields)


@cache
def _environment() -> Any:
    return cel.NewEnv(
        variables={
            "tenant": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
            "request": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        }
    )
