"""One scrape of an engine: the samples that somebody wants, added up as its vocabulary says.

An engine's exposition is long, and most of it are histograms' buckets. Only the lines that begin
with a wanted name are parsed. What is not there, or is no number, is None and never 0.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from dataplane.engine_metrics.series import EngineVocabulary

_MAX_LINES = 4096
"""Of the wanted names: a hundred ranks tell each of ten gauges for a few models."""


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One line of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Scrape:
    """The samples that were wanted, by name."""

    vocabulary: EngineVocabulary
    samples: Mapping[str, tuple[EngineSample, ...]]

    @property
    def parts(self) -> tuple[str, ...]:
        """The engines side by side behind this endpoint, by their label; ("",) where it is one."""
        found = {_part(self.vocabulary, s) for each in self.samples.values() for s in each}
        return tuple(sorted(found)) or ("",)

    def total(self, name: str, part: str | None = None, **labels: str) -> float | None:
        """The sum of the samples of `name` with these labels, of all engines or of one; None where
        there is none, or one is no number."""
        values = [sample.value for sample in self._of(name, part) if _has(sample, labels)]
        return math.fsum(values) if values and all(map(math.isfinite, values)) else None

    def newest(self, signal: str, part: str | None = None) -> float | None:
        """`total` of a signal, under the newest of its names that is there."""
        names = (series.exported for series in self.vocabulary.of_signal(signal))
        totals = (self.total(name, part) for name in names)
        return next((total for total in totals if total is not None), None)

    def label(self, name: str, label: str, part: str | None = None) -> str | None:
        """What the first sample of `name` says by `label`."""
        found = (sample.labels.get(label) for sample in self._of(name, part))
        return next((text for text in found if text is not None), None)

    def _of(self, name: str, part: str | None) -> Iterable[EngineSample]:
        samples = self.samples.get(name, ())
        totals = {self._whole_of(sample) for sample in samples if not self._is_part(sample)}
        first_copy: dict[tuple[str, ...], tuple[str, ...]] = {}
        for sample in samples:
            if self._is_part(sample) and self._whole_of(sample) in totals:
                continue
            if part is not None and _part(self.vocabulary, sample) != part:
                continue
            told = tuple(
                f"{key}={text}"
                for key, text in sorted(sample.labels.items())
                if key not in self.vocabulary.copy_labels
            )
            copy = tuple(sample.labels.get(label, "") for label in self.vocabulary.copy_labels)
            if first_copy.setdefault(told, copy) == copy:
                yield sample

    def _is_part(self, sample: EngineSample) -> bool:
        """Its total may stand beside it."""
        return any(sample.labels.get(label) for label in self.vocabulary.total_labels)

    def _whole_of(self, sample: EngineSample) -> frozenset[tuple[str, str]]:
        """What it is a part of, by the other labels."""
        parts = self.vocabulary.total_labels
        return frozenset(pair for pair in sample.labels.items() if pair[0] not in parts)


def read_scrape(vocabulary: EngineVocabulary, text: str, names: Collection[str]) -> Scrape:
    """`names` of samples, as they stand in the exposition. Raises ValueError for lines that no
    exposition has, and for more of them than any engine tells."""
    lines = [line for line in text.splitlines() if _name(line) in names]
    if len(lines) > _MAX_LINES:
        raise ValueError(f"{len(lines)} samples of what a few say in any engine")
    samples: dict[str, list[EngineSample]] = {}
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for each in family.samples:
            if each.name in names:
                sample = EngineSample(each.name, dict(each.labels), float(each.value))
                samples.setdefault(each.name, []).append(sample)
    return Scrape(vocabulary, {name: tuple(each) for name, each in samples.items()})


def whole(number: float | None) -> int | None:
    """A count, from a gauge's float; None where there is none, or one below 0."""
    return None if number is None or number < 0 else round(number)


def _name(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]


def _part(vocabulary: EngineVocabulary, sample: EngineSample) -> str:
    return ",".join(sample.labels.get(label, "") for label in vocabulary.parallel_labels)


def _has(sample: EngineSample, labels: Mapping[str, str]) -> bool:
    return all(sample.labels.get(key) == value for key, value in labels.items())
