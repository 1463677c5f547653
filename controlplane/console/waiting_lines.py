"""Who waits where: the requests in flight that stand in a queue, gathered by what tells a line
from another. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.api.live import LiveRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLine:
    """Requests of one class that wait before one deployment for the same thing."""

    deployment: str | None
    request_class: str | None
    waits_for: str
    num_waiting: int
    num_tenants: int
    num_prompt_tokens: int | None
    """None: of some it is not known."""
    oldest_seconds: float | None
    """How long the longest waiting has waited; None: a gateway does not say."""


def waiting_lines(requests: Iterable[LiveRequest]) -> list[WaitingLine]:
    """The one with the longest wait first."""
    members: dict[tuple[str, str, str], list[LiveRequest]] = {}
    for each in requests:
        if each.queue_position is not None:
            key = (each.deployment or "", each.request_class or "", each.waits_for)
            members.setdefault(key, []).append(each)
    lines = [_line(found) for found in members.values()]
    return sorted(lines, key=lambda line: (-(line.oldest_seconds or 0.0), line.deployment or ""))


def _line(found: list[LiveRequest]) -> WaitingLine:
    ages = [each.queue_age_seconds for each in found if each.queue_age_seconds is not None]
    tokens = [each.num_prompt_tokens for each in found]
    return WaitingLine(
        deployment=found[0].deployment,
        request_class=found[0].request_class,
        waits_for=found[0].waits_for,
        num_waiting=len(found),
        num_tenants=len({each.tenant for each in found}),
        num_prompt_tokens=None if None in tokens else sum(each or 0 for each in tokens),
        oldest_seconds=max(ages, default=None),
    )
