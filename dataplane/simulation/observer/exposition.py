"""The Prometheus text format: families of samples, and how they are written."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dataplane.simulation.observer.histogram import Histogram

FamilyKind = Literal["gauge", "counter", "histogram"]
Labels = tuple[tuple[str, str], ...]
Readings = Mapping[Labels, float]
"""A value for each set of extra labels."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: the full name, labels in the order they are written, and the value."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """The samples of one name."""

    name: str
    """As the TYPE line has it: a counter's with its `_total`."""
    kind: FamilyKind
    says: str
    samples: tuple[Sample, ...]

    def scaled(self, factor: float) -> "Family":
        """With every value of a gauge or counter times `factor`; a histogram stays."""
        if self.kind == "histogram":
            return self
        samples = tuple(replace(sample, value=sample.value * factor) for sample in self.samples)
        return replace(self, samples=samples)

    def renamed(self, name: str) -> "Family":
        """Under another name."""
        samples = tuple(
            replace(sample, name=name + sample.name.removeprefix(self.name))
            for sample in self.samples
        )
        return replace(self, name=name, samples=samples)


def plain_family(
    name: str, kind: FamilyKind, says: str, labels: Labels, readings: Readings
) -> Family:
    """A gauge or a counter. `labels` are on every sample, before those of its reading."""
    samples = tuple(
        Sample(name, (*labels, *extra), float(value)) for extra, value in readings.items()
    )
    return Family(name, kind, says, samples)


def histogram_family(name: str, says: str, labels: Labels, histogram: Histogram) -> Family:
    """Cumulative buckets, the sum and the count."""
    samples = []
    so_far = 0
    for bound, count in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
        so_far += count
        le = (("le", _number(float(bound))),)
        samples.append(Sample(f"{name}_bucket", (*labels, *le), float(so_far)))
    samples.append(Sample(f"{name}_sum", labels, histogram.total))
    samples.append(Sample(f"{name}_count", labels, float(so_far)))
    return Family(name, "histogram", says, tuple(samples))


def render(families: Iterable[Family]) -> str:
    """The text that a scrape is answered with."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.says}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines.extend(_line(sample) for sample in family.samples)
    return "\n".join(lines) + "\n"


def _line(sample: Sample) -> str:
    if not sample.labels:
        return f"{sample.name} {_number(sample.value)}"
    labels = ",".join(f'{key}="{_escape(value)}"' for key, value in sample.labels)
    return f"{sample.name}{{{labels}}} {_number(sample.value)}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
