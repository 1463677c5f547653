"""Reads logs of engines, servers, runtimes and kernels into signals and events.

One reader takes all logs of one incident, line by line, in one pass and in bounded memory: see
`keeping` and `growing` for what is kept of a log of millions of lines, `line_times` for when a line
was written, `writers` for who wrote it. Lines that say nothing known cost a look at their words.
What looks known and cannot be read is counted (`unread`) and becomes a doubt.
"""

import re
from collections.abc import Iterable, Iterator

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.sources.facts import fact_of
from controlplane.diagnosis.sources.log import settings
from controlplane.diagnosis.sources.log.answers import Answers
from controlplane.diagnosis.sources.log.envelope import Envelope, open_line, uncoloured
from controlplane.diagnosis.sources.log.growing import GrowingSeries
from controlplane.diagnosis.sources.log.keeping import Keeping, SeenEvent
from controlplane.diagnosis.sources.log.line_form import LineForm, LineForms, Saying
from controlplane.diagnosis.sources.log.line_times import LineTimes
from controlplane.diagnosis.sources.log.own import OwnRequests
from controlplane.diagnosis.sources.log.private import without_private
from controlplane.diagnosis.sources.log.shape import Match, first_match
from controlplane.diagnosis.sources.log.stamp import Clock
from controlplane.diagnosis.sources.log.thinning import Thinning
from controlplane.diagnosis.sources.log.unread import Unread
from controlplane.diagnosis.sources.log.writers import Writers
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.window import Doubt, DoubtKind

_GLUED = re.compile(r"(?<=.)(?=(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d )")
"""Where a console lost a line break."""
_MOST_BEFORE_FIRST_STAMP = 1000
MOST_CHARACTERS = 20_000
"""Of a line that are looked at. vLLM and SGLang write all their settings into one of several
thousand."""


class LogReader:
    """Takes lines, gives a `Part`."""

    def __init__(self, place: str = "", year: int | None = None) -> None:
        """`place` names the log in findings; `year` is that of its first line, where known."""
        self._place = place
        self._times = LineTimes(year)
        self._kept = Keeping()
        self._series = GrowingSeries(place)
        self._answers = Answers()
        self._requests = OwnRequests()
        self._thinning = Thinning()
        self._writers = Writers()
        self._settings: dict[tuple[str, str], float] = {}
        self._cut: dict[str, str] = {}
        self._unread = Unread()
        self._passed_over: str | None = None
        self._forms = LineForms()

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
        return self._times.knows_year

    @property
    def sure_engine(self) -> str | None:
        """Whose log it is, where several lines are of one engine and none is of another."""
        return self._writers.sure_engine

    def length(self) -> float:
        """Seconds from its earliest to its latest line."""
        self._read_rest()
        _, earliest, latest = self._times.span
        return latest - earliest

    def finish(self, zero: float | None = None, first_at: float = 0.0) -> Part:
        """What was read. Its times count from `zero`, in Unix seconds, which wants `knows_year`;
        None: its first stamped line stands at `first_at`."""
        self._read_rest()
        axis = self._times.axis
        first, earliest, latest = self._times.span
        shift = first - first_at if zero is None else zero - self._times.to_unix
        lines = self._kept.lines()
        return Part(
            series=self._series.series(shift, earliest),
            events=tuple(self._event(seen, axis, shift) for seen in self._kept.events()),
            facts=tuple(
                fact_of(name, value, max(at, earliest) - shift)
                for (name, value), at in self._settings.items()
            ),
            lines=lines,
            line_times=tuple(self._times.again(map(self._forms.stamp, lines), shift)),
            num_lines=self._kept.num_lines,
            doubts=tuple(self._doubts()),
            engine=self._writers.engine,
            start=earliest - shift if self._kept.num_lines else None,
            end=latest - shift if self._kept.num_lines else None,
        )

    def _read_rest(self) -> None:
        for index, line in self._thinning.rest():
            self._read_record(line, self._forms.of(line), index)
        if self._passed_over is not None:
            self._times.mark(self._forms.stamp(self._passed_over))

    # --- one line -------------------------------------------------------------------------
    def _read_line(self, line: str) -> None:
        if not line or line.isspace():
            return
        line = uncoloured(line[:MOST_CHARACTERS])
        form = self._forms.of(line)
        if form.may_hold_private:
            line = without_private(line)
            form = self._forms.of(line)
        index = self._kept.line(line)
        if "HTTP" in form.hit:
            self._count_answer(line)
        if not form.is_known:
            self._pass_over(line, index)
        elif not self._thinning.takes(form.hit, line, index):
            self._passed_over = None
            self._read_record(line, form, index)

    def _read_record(self, line: str, form: LineForm, index: int) -> None:
        if form.is_damaged:
            self._unread.count("bytes that are not UTF-8", line)
        if form.is_plain and form.saying.is_nothing:
            self._times.mark(form.stamp(line))
            return
        if form.is_plain:
            self._read_envelope(form.open(line), form.saying, index, line)
            return
        for part in _GLUED.split(line) if form.is_glued else (line,):
            for envelope in open_line(part):
                self._read_envelope(envelope, Saying(envelope), index, line)

    def _count_answer(self, line: str) -> None:
        figure = self._answers.take(line)
        if figure is not None:
            self._series.add(figure, {}, self._times.now)

    def _pass_over(self, line: str, index: int) -> None:
        """Its time counts only where it is the first or the last."""
        self._passed_over = line
        if index < _MOST_BEFORE_FIRST_STAMP and not self._times.spans:
            self._times.mark(self._forms.stamp(line))

    def _read_envelope(self, envelope: Envelope, saying: Saying, index: int, line: str) -> None:
        axis, seconds = self._times.mark(envelope.stamp)
        for figure in self._requests.take(envelope.record) if envelope.record else ():
            self._series.add(figure, {}, self._times.now)
        if saying.has_settings:
            for name, value in settings.read_settings(envelope.text):
                self._settings.setdefault((name, value), self._times.now)
        if saying.statistics and self._read_statistics(envelope, saying):
            return
        match = self._match(envelope, saying)
        if match is not None and not self._goes_on(match):
            self._kept.event(SeenEvent(match, index, line, axis, seconds))

    def _match(self, envelope: Envelope, saying: Saying) -> Match | None:
        found = first_match(saying.shapes, envelope.text)
        if found is None:
            match = saying.level_match
            return None if match is None else _with_place(match, envelope)
        shape, match = found
        if shape.engine:
            self._writers.note_engine(shape.engine, match.words.get("version"))
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

    def _read_statistics(self, envelope: Envelope, saying: Saying) -> bool:
        """Whether the line is nothing but statistics."""
        for form, places in saying.statistics:
            found = (place.read(envelope.text) for place in places)
            figures = [figure for figure in found if figure is not None]
            if not figures:
                self._unread.count(f"statistics of {form.engine}", envelope.text)
                continue
            self._writers.note_engine(form.engine)
            labels = self._writers.labels(envelope)
            if labels is not None:
                for figure in figures:
                    self._series.add(figure, labels, self._times.now)
            return form.event_keys is not None and form.event_keys.isdisjoint(saying.words)
        return False

    # --- in the end -----------------------------------------------------------------------
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

    def _doubts(self) -> Iterator[Doubt]:
        for what in (
            *self._unread.told(),
            *(
                f"{count} {what} were left out, since there are so many"
                for what, count in self._thinning.left_out.items()
            ),
            *self._times.told_steps_back(),
            *(
                f"{count} lines of {kind.value}; the first and the last of them are kept"
                for kind, count in self._kept.thinned().items()
            ),
        ):
            yield Doubt(kind=DoubtKind.UNREADABLE, name=self._place or "log", what=what)


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
