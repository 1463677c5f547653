"""Whether records are of all requests of their time, by the numbers that gateways gave. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from controlplane.diagnosis.sources.records.courses import FEW_UNSEEN
from controlplane.diagnosis.sources.records.ended_request import EndedRequest
from controlplane.diagnosis.sources.records.span import Span

_SOME = 0.01
"""Of those that were numbered."""
_ALL = "write all that ended: `pilothouse requests --all -o json`, chosen by time alone"


class Numbered(NamedTuple):
    """Requests that gateways numbered while those of the file arrived, of any deployment."""

    num_all: int
    num_missing: int
    """Of which the file has no record."""
    is_from_first: bool
    """The first that any of them numbered is there: nobody arrived before."""


def numbered(requests: Iterable[EndedRequest]) -> Numbered:
    """By every request that was read; those whose number is not told say nothing."""
    by_gateway: defaultdict[str, list[int]] = defaultdict(list)
    for each in requests:
        if each.gateway_sequence is not None:
            by_gateway[each.gateway_id].append(each.gateway_sequence)
    num_all = sum(max(own) - min(own) + 1 for own in by_gateway.values())
    return Numbered(
        num_all=num_all,
        num_missing=num_all - sum(map(len, by_gateway.values())),
        is_from_first=bool(by_gateway) and all(min(own) == 0 for own in by_gateway.values()),
    )


def why_chosen(requests: Sequence[EndedRequest], missing: Numbered) -> str:
    """Why no share of all requests can be told: they were chosen by how they ended, as far as can
    be seen. Empty where they were not."""
    if not missing.num_missing or len(requests) < 2:
        return ""
    alike = ""
    if len({each.disposition for each in requests}) == 1 and not requests[0].is_answered:
        alike = f"ended {requests[0].disposition}"
    elif all(each.in_contract is False for each in requests):
        alike = "missed the contract"
    if not alike:
        return ""
    return (
        f"all that it has {alike}, and {missing.num_missing} between them are not in it: they were "
        f"chosen by that, and what became of the others is not known; {_ALL}"
    )


def shortcomings(requests: Sequence[EndedRequest], span: Span, missing: Numbered) -> Iterator[str]:
    """What cannot be told of them, and why."""
    if missing.num_missing > _SOME * missing.num_all:
        yield (
            f"of {missing.num_all} requests that gateways numbered meanwhile it lacks "
            f"{missing.num_missing}: they may be of other deployments; otherwise counts and "
            "courses are of a part"
        )
    unseen = sum(each.lasted is None for each in requests)
    if unseen > FEW_UNSEEN * len(requests):
        yield (
            f"nobody saw the end of {unseen} of its {len(requests)} requests: how many were in "
            "flight is not known"
        )
    if not span.has_course:
        yield (
            f"it is of {span.end - span.start:.3g} s, and its requests took up to "
            f"{span.longest_seconds:.3g} s: too short to tell how many were in flight; give those "
            "of a longer time"
        )
