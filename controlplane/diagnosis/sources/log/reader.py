"""Reads logs of engines, servers, runtimes and kernels into signals and events.

One reader takes all logs of one incident, line by line, in one pass and in bounded memory: see
`keeping` and `growing` for what is kept of a log of millions of lines. Lines that say nothing known
cost a look at their words. What looks known and cannot be read is counted and becomes a doubt.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.sources.facts import fact_of
from controlplane.diagnosis.sources.log import settings
from controlplane.diagnosis.sources.log.answers import Answers
from controlplane.diagnosis.sources.log.envelope import Envelope, open_line, uncoloured
from controlplane.diagnosis.sources.log.growing import GrowingSeries
from controlplane.diagnosis.sources.log.keeping import Keeping, SeenEvent
from controlplane.diagnosis.sources.log.levels import LEVEL_WORDS, by_level, may_matter
from controlplane.diagnosis.sources.log.own import OwnRequests
from controlplane.diagnosis.sources.log.private import without_private
from controlplane.diagnosis.sources.log.shape import WORD, Match
from controlplane.diagnosis.sources.log.stamp import Clock
from controlplane.diagnosis.sources.log.tables import SHAPES, STATISTICS
from controlplane.diagnosis.sources.log.thinning import Thinning
from controlplane.diagnosis.sources.log.timeline import Timeline
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.window import Doubt, DoubtKind, EngineName

_KEYS = SHAPES.keys.union(LEVEL_WORDS, settings.KEYS, *(form.keys for form in STATISTICS))
_GLUED = re.compile(r"(?<=.)(?=(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d )")
"""Where a console lost a line break."""
_SAID_OFTEN = "Avg prompt throughput"
_CLOCK_STEP_SECONDS = 60.0
"""Ranks and threads write some seconds out of order."""
_MOST_BEFORE_FIRST_STAMP = 1000
_FEWEST_OF_ENGINE = 2
"""Lines; one may be quoted by something else."""
MOST_CHARACTERS = 20_000
"""Of a line that are looked at. vLLM and SGLang write all their settings into one of several
thousand."""


class LogReader:
    """Takes lines, gives a `Part`."""

    def __init__(self, place: str = "", year: int | None = None) -> None:
        """`place` names the log in findings; `year` is that of its first line, where known."""
        self._place = place
        self._year = year
        self._timeline = Timeline(year)
        self._kept = Keeping()
        self._series = GrowingSeries(place)
        self._answers = Answers()
        self._requests = OwnRequests()
        self._thinning = Thinning()
        self._engines: Counter[str] = Counter()
        self._versions: dict[str, str] = {}
        self._times: dict[Clock, list[float]] = {}
        self._speakers: dict[str, str] = {}
        self._settings: dict[tuple[str, str], float] = {}
        self._cut: dict[str, str] = {}
        self._unread: dict[str, list[str]] = {}
        self._unread_counts: Counter[str] = Counter()
        self._now = 0.0
        self._steps_back: list[float] = []
        self._passed_over: str | None = None

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

    @property
    def sure_engine(self) -> str | None:
        """Whose log it is, where several lines are of one engine and none is of another."""
        if len(self._engines) != 1 or self._engines.total() < _FEWEST_OF_ENGINE:
            return None
        return next(iter(self._engines))

    def finish(self, zero: float | None = None, first_at: float = 0.0) -> Part:
        """What was read. Its times count from `zero`, in Unix seconds, which wants `knows_year`;
        None: its first stamped line stands at `first_at`."""
        for index, line in self._thinning.rest():
            self._read_record(line, frozenset(WORD.findall(line)), index)
        if self._passed_over is not None:
            self._mark(open_line(self._passed_over)[0])
        axis = self._axis()
        first, earliest, latest = self._times.get(axis, (0.0, 0.0, 0.0))
        shift = first - first_at if zero is None else zero - self._timeline.to_unix
        lines = self._kept.lines()
        return Part(
            series=self._series.series(shift, earliest),
            events=tuple(self._event(seen, axis, shift) for seen in self._kept.events()),
            facts=tuple(
                fact_of(name, value, max(at, earliest) - shift)
                for (name, value), at in self._settings.items()
            ),
            lines=lines,
            line_times=tuple(self._line_times(lines, axis, shift)),
            num_lines=self._kept.num_lines,
            doubts=tuple(self._doubts()),
            engine=self._engine(),
            start=earliest - shift if self._kept.num_lines else None,
            end=latest - shift if self._kept.num_lines else None,
        )

    # --- one line -------------------------------------------------------------------------
    def _read_line(self, line: str) -> None:
        if not line or line.isspace():
            return
        line = without_private(uncoloured(line[:MOST_CHARACTERS]))
        index = self._kept.line(line)
        words = frozenset(WORD.findall(line))
        hit = _KEYS & words
        if "HTTP" in hit:
            self._count_answer(line)
        if not hit and not may_matter(line):
            self._pass_over(line, index)
        elif not self._thinning.takes(hit, line, index):
            self._passed_over = None
            self._read_record(line, words, index)

    def _read_record(self, line: str, words: frozenset[str], index: int) -> None:
        if "\ufffd" in line:
            self._count_unread("bytes that are not UTF-8", line)
        for part in _GLUED.split(line) if line.count(_SAID_OFTEN) > 1 else (line,):
            for envelope in open_line(part):
                own = words if envelope.text is line else frozenset(WORD.findall(envelope.text))
                self._read_envelope(envelope, own, index, line)

    def _count_answer(self, line: str) -> None:
        figure = self._answers.take(line)
        if figure is not None:
            self._series.add(figure, {}, self._now)

    def _pass_over(self, line: str, index: int) -> None:
        """Its time counts only where it is the first or the last."""
        self._passed_over = line
        if not self._times and index < _MOST_BEFORE_FIRST_STAMP:
            self._mark(open_line(line)[0])

    def _read_envelope(
        self, envelope: Envelope, words: frozenset[str], index: int, line: str
    ) -> None:
        axis, seconds = self._mark(envelope)
        for figure in self._requests.take(envelope.record):
            self._series.add(figure, {}, self._now)
        if not settings.KEYS.isdisjoint(words):
            for name, value in settings.read_settings(envelope.text):
                self._settings.setdefault((name, value), self._now)
        if self._read_statistics(envelope, words):
            return
        match = self._match(envelope, words)
        if match is not None and not self._goes_on(match):
            self._kept.event(SeenEvent(match, index, line, axis, seconds))

    def _match(self, envelope: Envelope, words: frozenset[str]) -> Match | None:
        found = SHAPES.match(envelope.text, words)
        if found is None:
            match = by_level(envelope)
            return None if match is None else _with_place(match, envelope)
        shape, match = found
        if shape.engine:
            self._engines[shape.engine] += 1
            version = match.words.get("version")
            if version:
                self._versions[shape.engine] = version
        return _with_place(match, envelope)

    def _goes_on(self, match: Match) -> bool:
        """llama.cpp cuts a slot's cache once for a new prompt, and says so again for each of the
        batches by which it then reads on."""
        if match.kind not in (LogKind.CACHE_CUT, LogKind.CACHE_RESET) or "task" not in match.words:
            return False
        task = match.words["task"]
        return self._cut.get(match.words["slot"]) == task or bool(
            self._cut.update({match.words["slot"]: task})
        )

    def _mark(self, envelope: Envelope) -> tuple[Clock | None, float | None]:
        """Notes the time of a line."""
        if envelope.stamp is None:
            return None, None
        axis = self._timeline.axis(envelope.stamp)
        seconds = self._timeline.seconds(envelope.stamp)
        if seconds is None:
            return None, None
        span = self._times.setdefault(axis, [seconds, seconds, seconds])
        if axis is Clock.DATED and seconds < self._now - _CLOCK_STEP_SECONDS:
            self._steps_back.append(self._now - seconds)
        span[1] = min(span[1], seconds)
        span[2] = max(span[2], seconds)
        if axis is Clock.DATED or Clock.DATED not in self._times:
            self._now = seconds
        return axis, seconds

    def _read_statistics(self, envelope: Envelope, words: frozenset[str]) -> bool:
        """Whether the line is nothing but statistics."""
        for form in STATISTICS:
            if form.keys.isdisjoint(words) or form.start.search(envelope.text) is None:
                continue
            figures = list(form.read(envelope.text))
            if not figures:
                self._count_unread(f"statistics of {form.engine}", envelope.text)
                continue
            self._engines[form.engine] += 1
            labels = self._labels(envelope)
            if labels is not None:
                for figure in figures:
                    self._series.add(figure, labels, self._now)
            return form.event_keys is not None and form.event_keys.isdisjoint(words)
        return False

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

    def _line_times(
        self, lines: Sequence[str], axis: Clock, shift: float
    ) -> Iterator[float | None]:
        timeline = Timeline(self._year)
        for line in lines:
            stamp = open_line(line)[0].stamp
            is_on_axis = stamp is not None and timeline.axis(stamp) is axis
            seconds = timeline.seconds(stamp) if stamp is not None and is_on_axis else None
            yield None if seconds is None else seconds - shift

    def _event(self, seen: SeenEvent, axis: Clock, shift: float) -> LogEvent:
        on_axis = seen.axis is axis and seen.seconds is not None
        return LogEvent(
            kind=seen.match.kind,
            index=seen.index,
            line=seen.line,
            at=(seen.seconds or 0.0) - shift if on_axis else None,
            fields=seen.match.fields,
            words=seen.match.words,
            place=self._place,
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
        for what, count in self._thinning.left_out.items():
            yield Doubt(
                kind=DoubtKind.UNREADABLE,
                name=place,
                what=f"{count} {what} were left out, since there are so many",
            )
        if self._steps_back:
            yield Doubt(
                kind=DoubtKind.UNREADABLE,
                name=place,
                what=f"its clock goes back {len(self._steps_back)} times, by up to "
                f"{max(self._steps_back):.0f} s: logs were put together out of order, or a clock "
                "was set; what was written at one time and what at the other cannot be told apart",
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
    words = {**match.words, **envelope.slot}
    if ranks:
        words.setdefault("rank", " ".join(f"{kind}{n}" for kind, n in ranks.items()))
    if envelope.replica:
        words.setdefault("replica", envelope.replica)
    return Match(match.kind, match.fields, words)


def read_log(text: str, place: str = "", year: int | None = None) -> Part:
    """A whole log at once, its times relative to its first stamped line."""
    reader = LogReader(place, year)
    reader.read(text.split("\n"))
    return reader.finish()
