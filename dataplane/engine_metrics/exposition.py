"""Prometheus text, and OpenMetrics text, into samples.

prometheus_client reads names and labels. A page of an engine is nearly the same at each scrape, so
what stands before the value is read once and remembered: a minute of pages takes a second and not
half a minute. A bad line costs that line alone, and is told.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

_MILLISECONDS = 1e-3
_EXEMPLAR = " # {"


class NotMetricsError(ValueError):
    """What was read is no metrics page. Says what it is instead, and what to do."""

    def __init__(self, place: str, what: str, remedy: str) -> None:
        self.place = place
        self.what = what
        self.remedy = remedy
        super().__init__(f"{place or 'the text'} is {what}, not a metrics page: {remedy}")


@dataclass(frozen=True, slots=True, eq=False)
class SampleHead:
    """Name and labels. One object for all samples of a reader that have the same."""

    name: str
    labels: Mapping[str, str]


class Sample(NamedTuple):
    """One line."""

    head: SampleHead
    value: float
    timestamp: float | None
    """Unix seconds, where the line says it."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read."""

    number: int
    """From 1."""
    line: str
    why: str


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape."""

    samples: tuple[Sample, ...]
    bad_lines: tuple[BadLine, ...]
    types: Mapping[str, str]
    """By family, as the page says."""
    is_complete: bool
    """Its last line ends, and OpenMetrics has its `# EOF`."""
    is_last_line_sample: bool = True
    """And no comment, nor a line that could not be read."""

    @property
    def names(self) -> frozenset[str]:
        """Of all series, a histogram's or a summary's without its suffix."""
        found = {sample.head.name for sample in self.samples}
        return frozenset(self._family(name, found) for name in found)

    def _family(self, name: str, found: set[str]) -> str:
        for suffix in ("_bucket", "_sum", "_count", "_created"):
            stem = name.removesuffix(suffix)
            if stem == name:
                continue
            if self.types.get(stem) in ("histogram", "summary") or f"{stem}_bucket" in found:
                return stem
        return name


@dataclass(slots=True)
class ExpositionReader:
    """Reads pages that resemble each other."""

    _heads: dict[str, SampleHead] = field(default_factory=dict)

    @property
    def num_heads(self) -> int:
        """That are remembered."""
        return len(self._heads)

    def forget(self) -> None:
        """What comes next is read anew."""
        self._heads.clear()

    def read(self, text: str, place: str = "") -> Page:
        """`place` is for messages. Raises NotMetricsError where nothing of it is a sample."""
        _refuse_other_formats(text, place)
        lines = text.split("\n")
        is_open_metrics = lines[-2:] == ["# EOF", ""] or lines[-1].strip() == "# EOF"
        samples: list[Sample] = []
        bad: list[BadLine] = []
        types: dict[str, str] = {}
        for number, raw_line in enumerate(lines, start=1):
            line = raw_line.strip()
            if not line:
                continue
            if line[0] == "#":
                _take_type(line, types)
                continue
            try:
                samples.append(self._sample(line, 1.0 if is_open_metrics else _MILLISECONDS))
            except ValueError as error:
                bad.append(BadLine(number, line, str(error) or "no sample"))
        if bad and not samples:
            raise NotMetricsError(
                place,
                f"text whose first line is `{bad[0].line[:60]}`",
                "give the text that GET /metrics answers",
            )
        last = lines[-1].strip()
        is_last_bad = bool(bad) and bad[-1].number == len(lines)
        return Page(
            tuple(samples),
            tuple(bad),
            types,
            is_complete=is_open_metrics or text.endswith("\n"),
            is_last_line_sample=bool(last) and last[0] != "#" and not is_last_bad,
        )

    def _sample(self, line: str, timestamp_unit: float) -> Sample:
        mark = line.rfind(_EXEMPLAR)
        if mark > 0:
            try:
                return self._plain_sample(line[:mark], timestamp_unit)
            except ValueError:  # it stands in a label's value
                pass
        return self._plain_sample(line, timestamp_unit)

    def _plain_sample(self, line: str, timestamp_unit: float) -> Sample:
        end = line.rfind("}") + 1
        if end:
            head, fields = line[:end], line[end:].split()
        else:
            head, *fields = line.split()
        if not 1 <= len(fields) <= 2:
            raise ValueError("a value is expected behind the name, and at most a timestamp")
        if "_" in fields[0]:
            raise ValueError(f"{fields[0]} is no number")
        known = self._heads.get(head)
        if known is None:
            known = self._heads[head] = _read_head(head)
        timestamp = float(fields[1]) * timestamp_unit if len(fields) == 2 else None
        return Sample(known, float(fields[0]), timestamp)


_LABEL = r'(?!__)[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*"'
_PLAIN = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({_LABEL}(?:,{_LABEL})*),?\}})?")
_PLAIN_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"')
"""Nearly all: a page of a large fleet has a hundred thousand, and the library takes long for each.
Whatever is unusual about one is left to it."""


def _read_head(head: str) -> SampleHead:
    plain = _PLAIN.fullmatch(head)
    if plain is not None:
        labels = _PLAIN_LABEL.findall(plain[2] or "")
        told = dict(labels)
        if len(told) == len(labels):
            return SampleHead(plain[1], told)
    for family in text_string_to_metric_families(f"{head} 1\n"):
        for sample in family.samples:
            return SampleHead(sample.name, dict(sample.labels))
    raise ValueError("no name")


def _take_type(line: str, types: dict[str, str]) -> None:
    words = line.split(None, 3)
    if len(words) == 4 and words[1] == "TYPE":
        types[words[2]] = words[3].strip()


def _refuse_other_formats(text: str, place: str) -> None:
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start == "<":
        title = text.split("<title>", 1)[-1].split("</title>", 1)[0].strip()
        named = f" titled `{title[:60]}`" if "<title>" in text else ""
        raise NotMetricsError(
            place,
            f"an HTML page{named}",
            "a proxy or another server may have answered; give the engine's own address, whose "
            "/metrics answers text lines such as `vllm:num_requests_running 3`",
        )
    if start in "{[" and start and _is_json(text):
        raise NotMetricsError(
            place,
            "JSON",
            "trtllm-serve answers metrics as text at /prometheus/metrics; a Prometheus server's "
            "data is read with its own address",
        )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def split_scrapes(text: str) -> Iterator[str]:
    """Each scrape of a file to which several were appended: one begins where a series that the
    scrape has already comes again, with the comments that stand before it."""
    current: list[str] = []
    comments: list[str] = []
    seen: set[str] = set()
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line.strip() or line.startswith("#"):
            comments.append(line)
            continue
        head = line[: line.rfind("}") + 1] or line.split()[0]
        if head in seen:
            yield "\n".join(itertools.chain(current, [""]))
            current, seen = [], set()
        seen.add(head)
        current += [*comments, line]
        comments = []
    if current or not seen:
        yield "\n".join([*current, *comments])
