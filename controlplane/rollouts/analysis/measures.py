"""What arms are compared by, and how much worse a candidate may be.

What is faster because it answers less is no better: pace is compared among answers of the same
length, and shorter, cut, empty and failed answers are measured in their own right.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

from controlplane.rollouts.analysis.arm_request import ArmRequest, length_band
from dataplane.lifecycle import Disposition

_EMPTY_TOKENS = 1
"""An answer of no more than its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One question to every request."""

    name: str
    says: str
    """What it is, in words."""
    value: Callable[[ArmRequest], float | None]
    """None: the question does not apply to that request."""
    is_alike: Callable[[ArmRequest], Hashable]
    """Requests are only compared with those for which this is the same."""
    more_is_worse: bool
    margin: float
    """How much worse is no harm: of a share in shares, of anything else in parts of it."""
    is_share: bool = True
    """Each value is 0 or 1; otherwise it is a logarithm, and differences are ratios."""

    @property
    def sharpest_at(self) -> float:
        """The margin on the scale on which values are compared."""
        return self.margin if self.is_share else math.log1p(self.margin)


def _by_prompt(request: ArmRequest) -> Hashable:
    return request.request_class, length_band(request.num_prompt_tokens)


def _by_contract(request: ArmRequest) -> Hashable:
    """What another revision promised is another question."""
    return _by_prompt(request), request.contract_revision


def _by_length(request: ArmRequest) -> Hashable:
    """Whom a policy refuses it may put into no class, or into another one."""
    return length_band(request.num_prompt_tokens)


def _by_both(request: ArmRequest) -> Hashable:
    return _by_prompt(request), length_band(request.num_output_tokens)


def _in_contract(request: ArmRequest) -> float | None:
    return None if request.in_contract is None else float(request.in_contract)


def _failed(request: ArmRequest) -> float | None:
    return None if request.is_failure is None else float(request.is_failure)


def _cut(request: ArmRequest) -> float | None:
    return float(request.disposition is Disposition.LENGTH) if request.is_answer else None


def _empty(request: ArmRequest) -> float | None:
    if not request.is_answer or request.num_output_tokens is None:
        return None
    return float(request.num_output_tokens <= _EMPTY_TOKENS)


def _length(request: ArmRequest) -> float | None:
    return _log(request.num_output_tokens) if request.is_answer else None


def _log(value: float | None) -> float | None:
    return math.log(value) if value is not None and value > 0 else None


MEASURES = (
    Measure(
        name="attainment",
        says="in contract, of those that something was promised to",
        value=_in_contract,
        is_alike=_by_contract,
        more_is_worse=False,
        margin=0.02,
    ),
    Measure(
        name="failures",
        says="refused or broken, of those that were not ended by who asked",
        value=_failed,
        is_alike=_by_length,
        more_is_worse=True,
        margin=0.02,
    ),
    Measure(
        name="cut",
        says="answers that ended at their longest length, of all answers",
        value=_cut,
        is_alike=_by_prompt,
        more_is_worse=True,
        margin=0.05,
    ),
    Measure(
        name="empty",
        says="answers of no more than a token, of all answers",
        value=_empty,
        is_alike=_by_prompt,
        more_is_worse=True,
        margin=0.02,
    ),
    Measure(
        name="answer_length",
        says="tokens of an answer, geometric mean",
        value=_length,
        is_alike=_by_prompt,
        more_is_worse=False,
        margin=0.15,
        is_share=False,
    ),
    Measure(
        name="ttft",
        says="time to the first token, geometric mean among prompts of a length",
        value=lambda request: _log(request.ttft),
        is_alike=_by_prompt,
        more_is_worse=True,
        margin=0.15,
        is_share=False,
    ),
    Measure(
        name="tpot",
        says="time of a token after the first, geometric mean among answers of a length",
        value=lambda request: _log(request.tpot),
        is_alike=_by_both,
        more_is_worse=True,
        margin=0.1,
        is_share=False,
    ),
)


def with_margins(margins: Mapping[str, float]) -> tuple[Measure, ...]:
    """All measures, those that are named with another margin."""
    return tuple(replace(each, margin=margins.get(each.name, each.margin)) for each in MEASURES)
