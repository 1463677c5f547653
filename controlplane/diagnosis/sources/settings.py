"""Settings that engines export: in the labels of info metrics, and in gauges that never move."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.plain_number import plain_number
from dataplane.engine_metrics.exposition import Sample, SampleHead
from dataplane.engine_metrics.setting import SettingSeries, SettingsTold, settings_in

_UNSEEN = SettingsTold((), (), "")


@dataclass(slots=True)
class SettingsReader:
    """Of one endpoint. What was told already is not told again."""

    _said: dict[str, str] = field(default_factory=dict)
    _heads: dict[SampleHead, SettingsTold | None] = field(default_factory=dict)

    def create_for_another(self) -> "SettingsReader":
        """For one more endpoint, which shares what is remembered of lines."""
        return SettingsReader(_heads=self._heads)

    def forget_heads(self) -> None:
        """What comes next is looked up anew, here and in those that share it."""
        self._heads.clear()

    def forget_if_more(self, most: int) -> None:
        """Of so many keys nothing is remembered: what comes next is told again."""
        if len(self._said) > most:
            self._said.clear()

    def read(
        self, samples: Iterable[Sample], at: float
    ) -> tuple[Sequence[SettingSeries], Sequence[Fact]]:
        """Signals of this page, and facts that are new or changed since the last one."""
        signals: list[SettingSeries] = []
        facts: list[Fact] = []
        for sample in samples:
            told = self._heads.get(sample.head, _UNSEEN)
            if told is _UNSEEN:
                told = self._heads[sample.head] = settings_in(sample.head)
            if told is None:
                continue
            signals += told.signals
            pairs = told.texts or ((told.key, plain_number(sample.value)),)
            facts += self._new(pairs, at)
        return signals, facts

    def _new(self, pairs: Iterable[tuple[str, str]], at: float) -> Iterable[Fact]:
        for key, raw in pairs:
            if self._said.get(key) != raw:
                self._said[key] = raw
                yield from facts_of({key: raw}, at)
