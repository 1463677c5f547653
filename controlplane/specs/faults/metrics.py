"""Faults of what is exported."""

from typing import Annotated, Literal

from pydantic import Field

from controlplane.specs.faults.fault import Multiple, Part, ReplicaFaultFields
from dataplane.simulation.faults.metrics import (
    Lie,
    LyingMetrics,
    MissingSeries,
    RenamedSeries,
    StaleMetrics,
)

SeriesPattern = Annotated[str, Field(min_length=1, max_length=200)]


class MetricFaultFields(ReplicaFaultFields):
    """What faults of metrics have."""

    series: Annotated[tuple[SeriesPattern, ...], Field(min_length=1, max_length=1000)] = ("*",)
    """Which names, as exported, such as `*cache_usage*`; all where nothing is said."""


class StaleMetricsSpec(MetricFaultFields):
    """Scrapes get what was said before."""

    makes = StaleMetrics
    fault: Literal["stale_metrics"]
    intensity: Part = 1.0
    """The share of scrapes that do; at 1 the text is frozen."""


class MissingSeriesSpec(MetricFaultFields):
    """Series are not exported."""

    makes = MissingSeries
    fault: Literal["missing_series"]
    intensity: Part = 1.0
    """The share of the names that is missing."""


class RenamedSeriesSpec(MetricFaultFields):
    """Series have another name: another release, a relabelling."""

    makes = RenamedSeries
    fault: Literal["renamed_series"]
    intensity: Part = 1.0
    """The share of the names that is renamed."""
    old: str = Field(default="", max_length=200)
    """The part of the name that is replaced; empty: `_v2` is added."""
    new: str = Field(default="", max_length=200)
    """What stands there instead."""


class LyingMetricsSpec(MetricFaultFields):
    """Values are wrong."""

    makes = LyingMetrics
    fault: Literal["lying_metrics"]
    intensity: Multiple = 1.0
    """How wrong; `how` says of what."""
    how: Lie = Lie.FACTOR
    """factor: gauges are 1 + intensity times too high. percent: ratios say percent. stuck: the last
    value again. reset: counters fall to 0."""
