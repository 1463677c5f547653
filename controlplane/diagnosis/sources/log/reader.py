"""Reads logs of engines, servers, runtimes and kernels into signals and events.

One reader takes all logs of one incident, line by line, in one pass and in bounded memory: see
`keeping` and `growing` for what is kept of a log of millions of lines. Lines that say nothing known
cost a look at their words. What looks known and cannot be read is counted and becomes a doubt.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.sources.log import (
    host,
    http,
    llamacpp,
    memory,
    sglang,
    tgi,
    vllm,
)
from controlplane.diagnosis.sources.log.envelope import Envelope, open_line
from controlplane.diagnosis.sources.log.figure import Figure
from controlplane.diagnosis.sources.log.growing import GrowingSeries
from controlplane.diagnosis.sources.log.keeping import Keeping, SeenEvent
from controlplane.diagnosis.sources.log.shape import WORD, Match, ShapeTable
from controlplane.diagnosis.sources.log.stamp import Clock
from controlplane.diagnosis.sources.log.timeline import Timeline
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.window import Doubt, DoubtKind, EngineName

_SHAPES = ShapeTable(
    (
        *memory.SHAPES,
        *host.SHAPES,
        *vllm.SHAPES,
        *sglang.SHAPES,
        *llamacpp.SHAPES,
        *tgi.SHAPES,
        *http.SHAPES,
    )
)
_STATISTICS: tuple[
    tuple[frozenset[str], str, Callable[[str], Iterator[Figure]], re.Pattern[str]], ...
] = (
    (vllm.STATISTICS_KEYS, "vllm", vllm.read_statistics, vllm.STATISTICS_START),
    (sglang.STATISTICS_KEYS, "sglang", sglang.read_statistics, sglang.STATISTICS_START),
    (llamacpp.STATISTICS_KEYS, "llama.cpp", llamacpp.read_statistics, llamacpp.STATISTICS_START),
)
_LEVELS = frozenset({"ERROR", "CRITICAL", "FATAL", "WARNING", "WARN"})
_KEYS = _SHAPES.keys.union(_LEVELS, *(keys for keys, *_ in _STATISTICS))
_EXCEPTION = re.compile(r"(?:^|[\] :])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b(?::|$)")
_INSIDE_TRACEBACK = re.compile(
    r"(?:\] |^)\s*(?:Traceback \(most|File \"|\^+|~+\^|\.\.\.)|\]\s{4,}|^\s{4,}"
)
MOST_CHARACTERS = 20_000
"""Of a line that are looked at. vLLM and SGLang write all their settings into one of several
thousand."""


class LogReader:
    """Takes lines, gives a `Part`."""

    def __init__(self, place: str = "", year: int | None = None) -> None:
        """`place` names the log in findings; `year` is that of its first line, where known."""
        self._place = place
        self._timeline = Timeline(year)
        self._kept = Keeping()
        self._series = GrowingSeries(place)
        self._engines: Counter[str] = Counter()
        self._versions: dict[str, str] = {}
        self._times: dict[Clock, list[float]] = {}
        self._speakers: dict[str, str] = {}
        self._unread: dict[str, list[str]] = {}
        self._unread_counts: Counter[str] = Counter()
        self._now = 0.0
        self._unstamped_line: str | None = None

    def read(self, lines: Iterable[str]) -> None:
        """In order; may be called again for the next log. A line may hold carriage returns, as
        progress bars leave them."""
        for line in lines:
            line = line.rstrip("\r\n")
            if "\r" in line:
                for part in line.split("\r"):
                    self._read_line(part)
            else:
                self._read_line(line)

    @property
    def knows_year(self) -> bool:
        """Its times are Unix seconds."""
        return self._timeline.knows_year

    def finish(self, zero: float | None = None, first_at: float = 0.0) -> Part:
        """What was read. Its times count from `zero`, in Unix seconds, which wants `knows_year`;
        None: its first stamped line stands at `first_at`."""
        if self._unstamped_line is not None:
            self._mark(open_line(self._unstamped_line)[0])
        axis = self._axis()
        times = self._times.get(axis, [])
        first = times[0] if times else 0.0
        shift = first - first_at if zero is None else zero - self._timeline.to_unix
        return Part(
            series=self._series.series(shift),
            events=tuple(self._event(seen, axis, shift) for seen in self._kept.events()),
            lines=self._kept.lines(),
            num_lines=self._kept.num_lines,
            doubts=tuple(self._doubts()),
            engine=self._engine(),
            start=min(times) - shift if times else None,
            end=max(times) - shift if times else None,
        )

    # --- one line -------------------------------------------------------------------------
    def _read_line(self, line: str) -> None:
        if not line or line.isspace():
            return
        line = line[:MOST_CHARACTERS]
        index = self._kept.line(line)
        if (
            _KEYS.isdisjoint(WORD.findall(line))
            and "Error" not in line
            and "Exception" not in line
            and not line.endswith("}")
        ):
            self._unstamped_line = line
            if not self._times:
                self._mark(open_line(line)[0])
            return
        self._unstamped_line = None
        if "\ufffd" in line:
            self._count_unread("bytes that are not UTF-8", line)
        for envelope in open_line(line):
            self._read_envelope(envelope, index, line)

    def _read_envelope(self, envelope: Envelope, index: int, line: str) -> None:
        axis, seconds = self._mark(envelope)
        words = frozenset(WORD.findall(envelope.text))
        self._read_statistics(envelope, words)
        found = _SHAPES.match(envelope.text, words)
        match = found[1] if found else _by_level(envelope)
        if found and found[0].engine:
            self._engines[found[0].engine] += 1
            version = found[1].words.get("version")
            if version:
                self._versions[found[0].engine] = version
        if match is not None:
            self._kept.event(SeenEvent(_with_place(match, envelope), index, line, axis, seconds))

    def _mark(self, envelope: Envelope) -> tuple[Clock | None, float | None]:
        """Notes the time of a line."""
        if envelope.stamp is None:
            return None, None
        axis = self._timeline.axis(envelope.stamp)
        seconds = self._timeline.seconds(envelope.stamp)
        span = self._times.setdefault(axis, [seconds, seconds, seconds])
        span[1] = min(span[1], seconds)
        span[2] = max(span[2], seconds)
        if axis is Clock.DATED or Clock.DATED not in self._times:
            self._now = seconds
        return axis, seconds

    def _read_statistics(self, envelope: Envelope, words: frozenset[str]) -> None:
        for keys, engine, read, start in _STATISTICS:
            if keys.isdisjoint(words) or start.search(envelope.text) is None:
                continue
            figures = list(read(envelope.text))
            if not figures:
                self._count_unread(f"statistics of {engine}", envelope.text)
                continue
            self._engines[engine] += 1
            labels = self._labels(envelope)
            if labels is not None:
                for figure in figures:
                    self._series.add(figure, labels, self._now)

    def _labels(self, envelope: Envelope) -> dict[str, str] | None:
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

    # --- in the end -----------------------------------------------------------------------
    def _axis(self) -> Clock:
        if Clock.DATED in self._times or not self._times:
            return Clock.DATED
        return next(iter(self._times))

    def _event(self, seen: SeenEvent, axis: Clock, shift: float) -> LogEvent:
        on_axis = seen.axis is axis and seen.seconds is not None
        return LogEvent(
            kind=seen.match.kind,
            index=seen.index,
            line=seen.line,
            at=(seen.seconds or 0.0) - shift if on_axis else None,
            fields=seen.match.fields,
            words=seen.match.words,
        )

    def _engine(self) -> EngineName | None:
        if not self._engines:
            return None
        name = self._engines.most_common(1)[0][0]
        return EngineName(name=name, version=self._versions.get(name))

    def _count_unread(self, what: str, line: str) -> None:
        self._unread_counts[what] += 1
        self._unread.setdefault(what, [line])

    def _doubts(self) -> Iterator[Doubt]:
        place = self._place or "log"
        for what, count in self._unread_counts.items():
            yield Doubt(
                kind=DoubtKind.UNREADABLE,
                name=place,
                what=f"{what}: {count} lines, the first: {self._unread[what][0][:120]}",
            )
        for kind, count in self._kept.thinned().items():
            yield Doubt(
                kind=DoubtKind.UNREADABLE,
                name=place,
                what=f"{count} lines of {kind.value}; the first and the last of them are kept",
            )


def _with_place(match: Match, envelope: Envelope) -> Match:
    """With who wrote it."""
    ranks = envelope.ranks
    words = dict(match.words)
    if ranks:
        words.setdefault("rank", " ".join(f"{kind}{n}" for kind, n in ranks.items()))
    if envelope.replica:
        words.setdefault("replica", envelope.replica)
    return Match(match.kind, match.fields, words)


def _by_level(envelope: Envelope) -> Match | None:
    """A line of no known shape, by its level or as an exception's last line."""
    if _INSIDE_TRACEBACK.search(envelope.text):
        return None
    if envelope.level in ("ERROR", "CRITICAL") or _EXCEPTION.search(envelope.text):
        return Match(LogKind.ERROR, {}, {})
    if envelope.level == "WARNING":
        return Match(LogKind.WARNING, {}, {})
    return None


def read_log(text: str, place: str = "", year: int | None = None) -> Part:
    """A whole log at once, its times relative to its first stamped line."""
    reader = LogReader(place, year)
    reader.read(text.split("\n"))
    return reader.finish()
