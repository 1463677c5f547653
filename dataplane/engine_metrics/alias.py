"""How one name on the wire is read as a signal."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from dataplane.engine_metrics.signal import Signal

Values = Mapping[str, frozenset[str]]
"""Of a label."""


@dataclass(frozen=True, slots=True)
class Alias:
    """One exported name. Where several aliases of a table stand for one signal, the first whose
    name is there is read: new names stand before old ones, the better source before the worse."""

    exported: str
    """As on the wire: a counter's with `_total`, a histogram's without `_bucket`."""
    signal: Signal
    _: KW_ONLY
    factor: float = 1.0
    """The exported value, times this, is in the signal's unit."""
    only: Values = field(default_factory=dict)
    """Samples with another value of these labels are not meant; one without the label is."""
    without: Values = field(default_factory=dict)
    """Samples with these values are not meant."""
    keep: Mapping[str, str] = field(default_factory=dict)
    """Labels that tell its series apart, and what they are called in the window."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Labels that its series get, where several names are parts of one signal."""
    until: str | None = None
    """The version that renamed or removed it; None: current."""
    resolution: float = 0.0
    """Its exporter rounds to multiples of this; 0: to nothing that can be seen."""
    is_counted_at_end: bool = False
    """It moves when a request, or its prompt, is done, by all its tokens at once: between two
    scrapes it tells who ended, and no speed."""
    is_without_cached: bool = False
    """Prompt tokens that were found in the cache are not among these."""
    averages: Signal | None = None
    """What it is an average of since anybody scraped last: useless to two readers."""
    instead: str | None = None
    """What later versions export in its place, where that tells another signal."""

    def means(self, labels: Mapping[str, str]) -> bool:
        """Whether a sample with these labels is meant."""
        return all(
            labels.get(key) is None or labels[key] in values for key, values in self.only.items()
        ) and not any(labels.get(key) in values for key, values in self.without.items())

    def is_another_name_of(self, other: "Alias") -> bool:
        """Whether both tell the same, or one took the other's place."""
        if self.exported == other.exported:
            return False
        if other.exported == self.instead or self.exported == other.instead:
            return True
        return self._meaning == other._meaning

    @property
    def _meaning(self) -> tuple[object, ...]:
        return self.signal, self.only, self.without, self.keep, self.fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoAlias:
    """A series whose labels tell settings, such as `vllm:cache_config_info`."""

    exported: str
    signals: Mapping[str, Signal] = field(default_factory=dict)
    """By label. The other labels become facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactAlias:
    """A gauge that is a setting or a figure of the start: not a course, a fact."""

    exported: str
    keep: tuple[str, ...] = ()
    """Labels whose value belongs to the fact's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasTable:
    """All that is known of one exporter."""

    engine: str | None
    """As in `EngineName`; None where it is no engine (a gateway, a process, a device)."""
    prefixes: tuple[str, ...]
    """Its own names begin with one of these."""
    aliases: tuple[Alias, ...]
    infos: tuple[InfoAlias, ...] = ()
    facts: tuple[FactAlias, ...] = ()
    unread: tuple[str, ...] = ()
    """More names of its own that are known, and told to nobody."""
    rank_labels: tuple[str, ...] = ()
    """Labels of engines that work side by side: their series stay apart, by label `engine`."""
    copy_labels: tuple[str, ...] = ()
    """Labels of processes that tell the same thing again: one of them is read."""
    total_labels: tuple[str, ...] = ()
    """Labels of parts beside their total, which has an empty value."""
    expected: frozenset[Signal] = frozenset()
    """What every current version exports."""
    whole_from: int = 1
    """With fewer of its own names a page is an extract, and nothing is said to be missing."""

    @property
    def signals(self) -> frozenset[Signal]:
        """All that some version of it tells."""
        return frozenset(alias.signal for alias in self.aliases)

    def names_of(self, signal: Signal) -> tuple[str, ...]:
        """Those that tell it, the best first."""
        found = (alias.exported for alias in self.aliases if alias.signal is signal)
        return tuple(dict.fromkeys(found))

    @property
    def names(self) -> frozenset[str]:
        """All that some version of it exports, as far as they are known."""
        signals = {each.exported for each in self.aliases}
        settings = {each.exported for each in self.infos} | {each.exported for each in self.facts}
        return frozenset(signals | settings | set(self.unread))
