"""The document that `pilothouse simulate` takes for chunked prefill: no kind, never applied.

It has the shape of the golden case `chunked_prefill`, with `prompt_budgets` where that has what
is expected. Numbers are decimals as they are written, up to 15 digits: 0.1 is exactly 0.1.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from controlplane.specs.kind import SpecModel
from controlplane.specs.problem import Path, Problem
from controlplane.specs.source import Source
from controlplane.specs.validation import read_model
from dataplane.simulation.chunked_prefill import Arrival, DecimalCost, PrefillCase

_WRAPPER = "chunked_prefill"
_MOST_MS = 10**15
_MOST_TOKENS = 100_000_000
_MOST_CHUNKS = 1_000_000
"""Of one run: all of them are printed."""


def _milliseconds(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(
            f"must be a number of milliseconds, without a unit, such as 0.5; it is {value!r:.60}"
        )
    if not 0 <= value <= _MOST_MS:
        raise ValueError(f"must be at least 0 and at most {_MOST_MS}; it is {value}")
    return Decimal(repr(value))


def _whole(value: Any) -> Any:
    """12.0 and 1e3 are whole numbers too."""
    is_whole = isinstance(value, float) and math.isfinite(value) and value.is_integer()
    return int(value) if is_whole else value


Milliseconds = Annotated[Decimal, BeforeValidator(_milliseconds)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
Bound = Annotated[int, BeforeValidator(_whole), Field(ge=1)]
RequestName = Annotated[str, Field(min_length=1, max_length=200)]


class CostModelSpec(SpecModel):
    """What the parts of an iteration cost."""

    iteration: Milliseconds
    per_prompt_token: Milliseconds
    per_decode_step: Milliseconds
    per_earlier_prompt_position_reread: Milliseconds = Decimal(0)


class ArrivalSpec(SpecModel):
    """A request that arrives."""

    request: RequestName
    at_ms: Milliseconds
    prompt: Bound
    decode_after_first: Count


class GivenSpec(SpecModel):
    """Bounds and requests."""

    slots: Bound
    total_batch_tokens: Bound
    decoding_at_zero: dict[RequestName, Count] | None = None
    arrivals: tuple[ArrivalSpec, ...] | None = None
    rules: Any = None
    """For readers; what they may say is how every run goes."""
    note: str | None = None


class PrefillCaseSpec(SpecModel):
    """The whole document."""

    cost_model_ms: CostModelSpec
    given: GivenSpec
    prompt_budgets: tuple[Bound, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCaseDocument:
    """A case, and the budgets to try it under."""

    case: PrefillCase
    prompt_budgets: tuple[int, ...]


def read_prefill_case(source: Source) -> tuple[PrefillCaseDocument | None, list[Problem]]:
    """The case of a document, or everything that is wrong with it."""
    problems: list[Problem] = []
    at: Path = ()
    if isinstance(source.data, dict) and list(source.data) == [_WRAPPER]:
        at = (_WRAPPER,)
    if not isinstance(source.data[_WRAPPER] if at else source.data, dict):
        keys = ", ".join(PrefillCaseSpec.model_fields)
        return None, [source.problem(at, f"must be a mapping with {keys}")]
    spec = read_model(source, at, PrefillCaseSpec, problems)
    if spec is not None:
        problems += _contradictions(source, (*at, "given"), spec.given)
        problems += _excess(source, at, spec)
    if spec is None or problems:
        return None, problems
    written = source.data[_WRAPPER] if at else source.data
    names = tuple(written["given"].get("decoding_at_zero") or ())
    case = _case(spec, names)
    return PrefillCaseDocument(case=case, prompt_budgets=spec.prompt_budgets), []


def _contradictions(source: Source, at: Path, given: GivenSpec) -> list[Problem]:
    """What the fields cannot know of each other."""
    problems = []
    seen = set(given.decoding_at_zero or ())
    for position, arrival in enumerate(given.arrivals or ()):
        if arrival.request in seen:
            what = f"another request is called {arrival.request!r} too; give each its own name"
            problems.append(source.problem((*at, "arrivals", position, "request"), what))
        seen.add(arrival.request)
    num_decoding = sum(steps > 0 for steps in (given.decoding_at_zero or {}).values())
    for key, bound in (("slots", given.slots), ("total_batch_tokens", given.total_batch_tokens)):
        if num_decoding > bound:
            what = (
                f"is {bound}, but {num_decoding} requests decode at zero, each in a slot and one "
                f"token an iteration; raise it to at least {num_decoding}"
            )
            problems.append(source.problem((*at, key), what))
    return problems


def _excess(source: Source, at: Path, spec: PrefillCaseSpec) -> list[Problem]:
    """More than anybody wants to wait for or read."""
    given = spec.given
    arrivals = given.arrivals or ()
    num_decodes = sum((given.decoding_at_zero or {}).values())
    num_decodes += sum(each.decode_after_first for each in arrivals)
    num_tokens = num_decodes + sum(each.prompt for each in arrivals)
    if num_tokens > _MOST_TOKENS:
        what = (
            f"asks for {num_tokens} prompt tokens and decode steps; at most {_MOST_TOKENS}. "
            f"Shorten prompts or answers"
        )
        return [source.problem((*at, "given"), what)]
    problems = []
    for position, budget in enumerate(spec.prompt_budgets):
        largest = min(budget, given.total_batch_tokens)
        num_chunks = num_decodes + sum(-(-each.prompt // largest) for each in arrivals)
        if num_chunks > _MOST_CHUNKS:
            what = (
                f"with {budget}, up to {num_chunks} decode steps and prefill chunks would be "
                f"listed; at most {_MOST_CHUNKS}. Shorten prompts or answers, or raise it"
            )
            problems.append(source.problem((*at, "prompt_budgets", position), what))
    return problems


def _case(spec: PrefillCaseSpec, names: Iterable[str]) -> PrefillCase:
    """`names` are those who decode at zero, in the order in which they are written."""
    cost, given = spec.cost_model_ms, spec.given
    steps = given.decoding_at_zero or {}
    return PrefillCase(
        cost=DecimalCost(
            iteration=cost.iteration,
            per_prompt_token=cost.per_prompt_token,
            per_decode_step=cost.per_decode_step,
            per_reread_token=cost.per_earlier_prompt_position_reread,
        ),
        num_slots=given.slots,
        max_batch_tokens=given.total_batch_tokens,
        decoding={name: steps[name] for name in names},
        arrivals=tuple(
            Arrival(
                request_id=each.request,
                at_ms=each.at_ms,
                num_prompt_tokens=each.prompt,
                num_decodes=each.decode_after_first,
            )
            for each in given.arrivals or ()
        ),
    )
