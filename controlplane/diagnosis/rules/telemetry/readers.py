"""Who reads metrics, and what of them: panels, alerts, autoscalers, routers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import plain
from controlplane.diagnosis.window import Window

NAME = re.compile(
    r"\b((?:[a-z][a-z0-9_]*:[a-z][a-z0-9_]+)"
    r"|(?:(?:vllm|sglang|llamacpp|tgi|trtllm|nv|dynamo|llm_d|DCGM_FI)_[a-zA-Z0-9_]+))"
)
"""Of a metric, as engines call theirs."""
READER = (
    r"autoscal|scal|hpa|keda|alert|rule|panel|dashboard|quer|target|trigger|router|scorer|filter|epp"
    r"|needs?|needed|ticket|claim|complain|says|expects|looked for|picker|balancer|source|signal"
    r"|monitor|adapter|grafana|prometheus|slo|uses|relies|watch|metric|reads|policy|chart|graph|paged|report"
)
"""Words of keys under which somebody tells who reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A name that somebody reads, and where that is said."""

    name: str
    text: str
    """The expression in which the name stands."""
    said: str
    is_change: bool = False
    """It stands in a change: who reads it now is not known."""


def readers(window: Window) -> tuple[Fact, ...]:
    """What was told of those who read."""
    return tuple(
        fact for fact in window.facts if not fact.is_observed and re.search(READER, plain(fact.key))
    )


def names_read(window: Window) -> Iterator[Read]:
    """Every name in what was told of readers, and in changes."""
    for fact in readers(window):
        for name in NAME.findall(f"{fact.key} {fact.raw}"):
            yield Read(name=name, text=fact.raw, said=says(fact))
    for change in window.changes:
        for name in NAME.findall(change.what):
            yield Read(name=name, text=change.what, said=change.what, is_change=True)
