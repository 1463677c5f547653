"""Which of an engine's known series are there, under which name. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from dataplane.engine_metrics.llamacpp import LLAMACPP
from dataplane.engine_metrics.series import EngineSeries, EngineVocabulary, SeriesKind
from dataplane.engine_metrics.sglang import SGLANG
from dataplane.engine_metrics.vllm import VLLM

VOCABULARIES = {each.engine: each for each in (VLLM, SGLANG, LLAMACPP)}
"""By engine."""

_HISTOGRAM_PARTS = ("_count", "_sum", "_bucket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What can be read of one engine, and how."""

    engine: str
    found: dict[str, EngineSeries]
    """By signal: the newest name that is there."""
    missing: frozenset[str]
    """Signals that some version of the engine exports and this one does not, or not yet: some
    series appear only with an option, or with the first request."""
    unknown: tuple[str, ...]
    """Exported under the engine's prefix, and nothing is known of them."""

    @property
    def outdated(self) -> tuple[EngineSeries, ...]:
        """Found under a name that newer versions do not export."""
        return tuple(each for each in self.found.values() if each.until is not None)


def find_vocabulary(exported: Collection[str]) -> EngineVocabulary | None:
    """Whose series these are, by their prefix; None: of no engine that is known here."""
    counts = {
        each.engine: sum(name.startswith(each.prefix) for name in exported)
        for each in VOCABULARIES.values()
    }
    best = max(counts, key=lambda engine: counts[engine])
    return VOCABULARIES[best] if counts[best] else None


def resolve(vocabulary: EngineVocabulary, exported: Collection[str]) -> Resolution:
    """`exported`: the names of samples as they stand in the exposition, `_count` and all."""
    names = set(exported)
    found: dict[str, EngineSeries] = {}
    for series in vocabulary.series:
        if series.signal not in found and not names.isdisjoint(sample_names(series)):
            found[series.signal] = series
    return Resolution(
        engine=vocabulary.engine,
        found=found,
        missing=vocabulary.signals - found.keys(),
        unknown=_unknown(vocabulary, names),
    )


def sample_names(series: EngineSeries) -> tuple[str, ...]:
    """The names that its samples may have."""
    if series.kind is not SeriesKind.HISTOGRAM:
        return (series.exported,)
    return tuple(f"{series.exported}{part}" for part in _HISTOGRAM_PARTS)


def _unknown(vocabulary: EngineVocabulary, names: Collection[str]) -> tuple[str, ...]:
    known = {each.exported for each in vocabulary.series}
    stems = {_stem(name) for name in names if name.startswith(vocabulary.prefix)}
    return tuple(sorted(stems - known))


def _stem(name: str) -> str:
    for suffix in (*_HISTOGRAM_PARTS, "_created"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
