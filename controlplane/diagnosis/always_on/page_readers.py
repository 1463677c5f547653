"""What the lines of metrics pages mean, remembered once for all replicas."""

from controlplane.diagnosis.always_on.rolling_endpoint import RollingEndpoint
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.sources.exposition import ExpositionReader
from controlplane.diagnosis.sources.gathering import Gatherer
from controlplane.diagnosis.sources.settings import SettingsReader

_MAX_HEADS = 100_000


class PageReaders:
    """Pages of one engine are nearly the same whoever's they are, so all histories share this."""

    def __init__(self, max_heads: int = _MAX_HEADS) -> None:
        """`max_heads`: names with labels. With more than that they change all the time, and all are
        forgotten."""
        self._max_heads = max_heads
        self.reader = ExpositionReader()
        self._gatherer = Gatherer()
        self._settings = SettingsReader()

    @property
    def num_heads(self) -> int:
        """That are remembered."""
        return len(self.reader._heads)

    def create_endpoint(self, labels: dict[str, str], place: str) -> RollingEndpoint:
        """For the pages of one more."""
        settings = SettingsReader(_heads=self._settings._heads)
        return RollingEndpoint(
            labels, place, SourceKind.METRICS, self._gatherer, _settings_reader=settings
        )

    def forget_if_many(self) -> None:
        """Whatever comes next is read anew, and nothing else changes."""
        if self.num_heads > self._max_heads:
            self.reader._heads.clear()
            self._gatherer._targets.clear()
            self._settings._heads.clear()
