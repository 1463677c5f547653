"""What the lines of metrics pages mean, remembered once for all replicas."""

from controlplane.diagnosis.always_on.rolling_endpoint import RollingEndpoint
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.sources.settings import SettingsReader
from dataplane.engine_metrics.exposition import ExpositionReader
from dataplane.engine_metrics.gathering import Gatherer

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
        return self.reader.num_heads

    def create_endpoint(self, labels: dict[str, str], place: str) -> RollingEndpoint:
        """For the pages of one more."""
        settings = self._settings.create_for_another()
        return RollingEndpoint(
            labels, place, SourceKind.METRICS, self._gatherer, _settings_reader=settings
        )

    def forget_if_many(self) -> None:
        """Whatever comes next is read anew, and nothing else changes."""
        if self.num_heads > self._max_heads:
            self.reader.forget()
            self._gatherer.forget()
            self._settings.forget_heads()
