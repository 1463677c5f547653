"""Who writes a log: which engine, and which of its replicas and ranks each line is of."""

from collections import Counter

from controlplane.diagnosis.sources.log.envelope import Envelope
from controlplane.diagnosis.window import EngineName

_FEWEST_OF_ENGINE = 2
"""Lines; one may be quoted by something else."""


class Writers:
    """Of one log."""

    def __init__(self) -> None:
        self._engines: Counter[str] = Counter()
        self._versions: dict[str, str] = {}
        self._speakers: dict[str, str] = {}

    def note_engine(self, name: str, version: str | None = None) -> None:
        """A line is in the words of that engine; a few of them tell its version."""
        self._engines[name] += 1
        if version:
            self._versions[name] = version

    @property
    def sure_engine(self) -> str | None:
        """Whose log it is, where several lines are of one engine and none is of another."""
        if len(self._engines) != 1 or self._engines.total() < _FEWEST_OF_ENGINE:
            return None
        return next(iter(self._engines))

    @property
    def engine(self) -> EngineName | None:
        """That of most lines."""
        if not self._engines:
            return None
        name = self._engines.most_common(1)[0][0]
        return EngineName(name=name, version=self._versions.get(name))

    def labels(self, envelope: Envelope) -> dict[str, str] | None:
        """Those of a line's writer. None for a rank that repeats what another said: the ranks of
        one tensor parallel group do the same, those of data parallel ones do not."""
        ranks = envelope.ranks
        labels = {"replica": envelope.replica} if envelope.replica else {}
        if "dp" in ranks:
            labels["engine"] = str(ranks["dp"])
        speaker = ",".join(f"{kind}{ranks[kind]}" for kind in ("tp", "pp", "ep") if kind in ranks)
        group = ",".join(labels.values())
        if self._speakers.setdefault(group, speaker) != speaker:
            return None
        return labels
