"""What vLLM's spans say of its requests: when work began, when tokens came, and how many.

vLLM writes one span a request, when it finishes. The span starts at the arrival; its attributes
are durations, which give three moments::

    arrival      scheduled          first token                     last token
       |-----------|--- prefill --------|------------ decode -----------|
       |---------- time to first token -|

Which attributes there are depends on the release. What one lacks is worked out from others, and
where nothing gives it the span is passed over, and counted by what it lacks.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dataplane import foreign_names, genai
from dataplane.simulation.fitting.overheads import came_alone
from dataplane.simulation.fitting.served_request import ServedRequest

_FEW_IDLE = 5
Attributes = Mapping[str, str | bool | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpan:
    """A span that some exporter wrote. Nothing in it was checked."""

    name: str
    service: str
    """Whose: `service.name` of its resource."""
    start_unix_ns: int
    end_unix_ns: int
    attributes: Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpans:
    """What spans come to."""

    requests: Sequence[ServedRequest]
    """In order of arrival; times since the first of all."""
    waited_outside: Sequence[float]
    """Seconds: of the time to the first token, what was neither queue nor prefill. Of requests
    that came to an engine with nothing to do: another takes them in between two steps, and that
    wait is none of theirs. Of all that did not come in a crowd where hardly any were."""
    lacking: Mapping[str, int]
    """Spans of requests that were passed over, by what they lack."""
    num_others: int
    """Spans of something else."""
    first_unix_ns: int | None
    last_unix_ns: int | None
    """First and last arrival of `requests`."""
    models: frozenset[str]
    """As far as the spans name them."""


@dataclass(slots=True)
class _Reading:
    lacking: Counter[str] = field(default_factory=Counter)
    num_others: int = 0
    taken: list[tuple[EngineSpan, "_Times"]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    first_token: float
    """Since the arrival."""
    prefill: float
    decode: float
    outside: float
    num_prompt_tokens: int
    num_output_tokens: int


class _LackingError(Exception):
    """What a span lacks."""


def read_vllm_spans(spans: Iterable[EngineSpan]) -> ReadSpans:
    """Sort out the spans of requests, and place their moments on one clock."""
    reading = _Reading()
    for span in spans:
        if span.name != foreign_names.VLLM_REQUEST_SPAN:
            reading.num_others += 1
            continue
        try:
            reading.taken.append((span, _times(span)))
        except _LackingError as lacking:
            reading.lacking[str(lacking)] += 1
    taken = sorted(reading.taken, key=lambda each: each[0].start_unix_ns)
    origin = taken[0][0].start_unix_ns if taken else 0
    requests = [_place(span, times, origin) for span, times in taken]
    models = {span.attributes.get(genai.RESPONSE_MODEL) for span, _ in taken}
    return ReadSpans(
        requests=requests,
        waited_outside=_outside(taken, requests),
        lacking=reading.lacking,
        num_others=reading.num_others,
        first_unix_ns=origin if taken else None,
        last_unix_ns=taken[-1][0].start_unix_ns if taken else None,
        models=frozenset(model for model in models if isinstance(model, str)),
    )


def _outside(
    taken: Sequence[tuple[EngineSpan, _Times]], requests: Sequence[ServedRequest]
) -> list[float]:
    """Both in order of arrival."""
    alone = came_alone([span.start_unix_ns for span, _ in taken])
    busy_until: dict[str, float] = {}
    idle = []
    for (_, times), request in zip(taken, requests, strict=True):
        arrived_at = request.first_token_at - times.first_token
        idle.append(busy_until.get(request.server, -math.inf) < arrived_at)
        last = max(busy_until.get(request.server, -math.inf), request.last_token_at)
        busy_until[request.server] = last
    chosen = idle if sum(idle) >= _FEW_IDLE else alone
    return [times.outside for (_, times), is_one in zip(taken, chosen, strict=True) if is_one]


def _place(span: EngineSpan, times: _Times, origin: int) -> ServedRequest:
    first_token_at = (span.start_unix_ns - origin) / 1e9 + times.first_token
    return ServedRequest(
        server=span.service,
        scheduled_at=first_token_at - times.prefill,
        first_token_at=first_token_at,
        last_token_at=first_token_at + times.decode,
        num_prompt_tokens=times.num_prompt_tokens,
        num_output_tokens=times.num_output_tokens,
    )


def _times(span: EngineSpan) -> _Times:
    """Raises _LackingError."""
    if span.start_unix_ns <= 0:
        raise _LackingError("a start time")
    attributes = span.attributes
    num_prompt = _tokens(attributes, foreign_names.ENGINE_PROMPT_TOKENS, "prompt tokens")
    num_output = _tokens(attributes, foreign_names.ENGINE_OUTPUT_TOKENS, "completion tokens")
    first_token = _seconds(attributes, foreign_names.ENGINE_TIME_TO_FIRST_TOKEN)
    if first_token is None:
        raise _LackingError(foreign_names.ENGINE_TIME_TO_FIRST_TOKEN)
    queue = _seconds(attributes, foreign_names.ENGINE_TIME_IN_QUEUE)
    prefill = _prefill(attributes, first_token, queue)
    return _Times(
        first_token=first_token,
        prefill=prefill,
        decode=0.0 if num_output == 1 else _decode(attributes, first_token, prefill),
        outside=max(0.0, first_token - prefill - (queue or 0.0)),
        num_prompt_tokens=num_prompt,
        num_output_tokens=num_output,
    )


def _prefill(attributes: Attributes, first_token: float, queue: float | None) -> float:
    prefill = _seconds(attributes, foreign_names.ENGINE_TIME_IN_PREFILL)
    inference = _seconds(attributes, foreign_names.ENGINE_TIME_IN_INFERENCE)
    decode = _seconds(attributes, foreign_names.ENGINE_TIME_IN_DECODE)
    told = (prefill, _difference(inference, decode), _difference(first_token, queue))
    return _first_told(told, foreign_names.ENGINE_TIME_IN_PREFILL, "a prefill that takes time")


def _decode(attributes: Attributes, first_token: float, prefill: float) -> float:
    decode = _seconds(attributes, foreign_names.ENGINE_TIME_IN_DECODE)
    inference = _seconds(attributes, foreign_names.ENGINE_TIME_IN_INFERENCE)
    whole = _seconds(attributes, foreign_names.ENGINE_E2E)
    told = (decode, _difference(inference, prefill), _difference(whole, first_token))
    return _first_told(told, foreign_names.ENGINE_TIME_IN_DECODE, "a decode that takes time")


def _difference(whole: float | None, part: float | None) -> float | None:
    return None if whole is None or part is None else whole - part


def _first_told(seconds: Iterable[float | None], name: str, lasting: str) -> float:
    """Raises _LackingError for `name` where none is told, for `lasting` where it takes no time."""
    told = next((each for each in seconds if each is not None), None)
    if told is None:
        raise _LackingError(name)
    if told <= 0:
        raise _LackingError(lasting)
    return told


def _seconds(attributes: Attributes, name: str) -> float | None:
    """None where it is not there. Raises _LackingError for one that is no duration."""
    value = attributes.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(float(value)) or float(value) < 0:
        raise _LackingError(f"a duration in {name}")
    return float(value)


def _tokens(attributes: Attributes, names: Sequence[str], what: str) -> int:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise _LackingError(what)
