"""What lines have in common that differ in digits alone, found out once for all of them.

Nine of ten lines of a long log are such as thousands above them: statistics, access lines, the
same frames of the same traceback. Which words they hold, where their time stands, which shapes they
may be of and whether they may hold a secret does not change with a digit, and is most of the work.
What does (times, figures, whether a shape fits) is asked of each line itself.
"""

import re
from functools import cached_property

from controlplane.diagnosis.sources.log import settings
from controlplane.diagnosis.sources.log.envelope import (
    NO_RECORD,
    Envelope,
    Prefix,
    find_prefix,
    may_be_record,
    open_line,
)
from controlplane.diagnosis.sources.log.levels import LEVEL_WORDS, by_level, may_matter
from controlplane.diagnosis.sources.log.private import may_hold_private
from controlplane.diagnosis.sources.log.shape import WORD, Match
from controlplane.diagnosis.sources.log.stamp import Stamp, place_of_stamp, stamp_at
from controlplane.diagnosis.sources.log.tables import SHAPES, STATISTICS

KEYS = SHAPES.keys.union(LEVEL_WORDS, settings.KEYS, *(form.keys for form in STATISTICS))
"""A line that holds none of them as a word, and may be no exception, says nothing that is known."""
MOST_FORMS = 4096
"""That are remembered at once. A log has some hundred, and one for each line with an id."""

_LONGEST = 1000
"""Characters. A longer line is hardly ever like another."""
_ZEROS = bytes(ord("0") if chr(code) in "123456789" else code for code in range(256))
_SAID_OFTEN = "Avg prompt throughput"
"""A console lost a line break where it stands twice."""


_ID = re.compile(rb"cmpl-[0-9a-f]{32}(?!\w)")
_ANY_ID = b"cmpl-" + b"0" * 32


def template_of(line: str) -> bytes:
    """`line` with a zero for every digit, and for what OpenAI's API calls an answer by."""
    template = line.encode("utf-8", "surrogatepass").translate(_ZEROS)
    return _ID.sub(_ANY_ID, template) if b"cmpl-" in template else template


_WITH_DIGITS = frozenset(
    template_of(word).decode()
    for word in KEYS.union(*(shape.key.split() for shape in SHAPES.shapes))
    if any(map(str.isdigit, word))
)
"""Words of which a digit counts, as templates have them."""


_OF_STATISTICS = frozenset[str]().union(*(form.keys for form in STATISTICS))


class Saying:
    """What a message may say."""

    def __init__(self, envelope: Envelope) -> None:
        words = frozenset(WORD.findall(envelope.text))
        self._envelope = envelope
        self.words = words
        self.statistics = tuple(
            (form, tuple(form.find(envelope.text)))
            for form in STATISTICS
            if not form.keys.isdisjoint(words) and form.start.search(envelope.text) is not None
        )
        """Of which it is a line, and where its figures stand."""
        self.shapes = tuple(
            shape
            for shape in SHAPES.candidates(words)
            if shape.counts_digits or shape.pattern.search(envelope.text) is not None
        )
        """Of which it may be, with some digits or others."""
        self.has_settings = not settings.KEYS.isdisjoint(words)

    @cached_property
    def is_nothing(self) -> bool:
        """Only its time counts, where it is plain text."""
        is_asked = self.statistics or self.shapes or self.has_settings
        return not is_asked and self.level_match is None

    @cached_property
    def level_match(self) -> Match | None:
        """What it is where it is of no shape."""
        return by_level(self._envelope)


class LineForm:
    """Of all lines that have one template."""

    def __init__(self, line: str) -> None:
        """`line` is any of them."""
        self._line = line
        self.may_hold_private = may_hold_private(line)
        self.is_damaged = "\ufffd" in line
        self.is_glued = line.count(_SAID_OFTEN) > 1
        self.is_plain = not self.is_glued and not may_be_record(line)
        """It is one message, which `open` and `saying` are of."""

    @cached_property
    def hit(self) -> frozenset[str]:
        """The words that are known."""
        return KEYS.intersection(WORD.findall(self._line))

    @cached_property
    def is_known(self) -> bool:
        """It may say something."""
        return bool(self.hit) or may_matter(self._line)

    @cached_property
    def saying(self) -> Saying:
        """What it may say."""
        return Saying(self.open(self._line))

    def open(self, line: str) -> Envelope:
        """Any of the lines."""
        prefix = self._prefix
        text = line[prefix.end :] if prefix.end else line
        name = line[prefix.start : prefix.stop] if prefix.end else ""
        return Envelope(text, stamp_at(text, self._stamp_place), "", name, NO_RECORD)

    def stamp(self, line: str) -> Stamp | None:
        """That of any of the lines."""
        if not self.is_plain:
            return open_line(line)[0].stamp
        end = self._prefix.end
        return stamp_at(line[end:] if end else line, self._stamp_place)

    def is_of(self, template: str) -> bool:
        """Whether all lines of that template are such: no digit counts but in figures and times."""
        if not _WITH_DIGITS.isdisjoint(WORD.findall(template)):
            return False
        if not self.is_plain or _OF_STATISTICS.isdisjoint(self.hit):
            return True
        names = (place.name for _, places in self.saying.statistics for place in places)
        return not any(map(str.isdigit, "".join(names)))

    @cached_property
    def _prefix(self) -> Prefix:
        return find_prefix(self._line)

    @cached_property
    def _stamp_place(self) -> tuple[int, int] | None:
        return place_of_stamp(self._line[self._prefix.end :])


class LineForms:
    """Those of a log's lines, remembered."""

    def __init__(self) -> None:
        self._forms: dict[bytes, LineForm] = {}

    def stamp(self, line: str) -> Stamp | None:
        """That of `line`."""
        return self.of(line).stamp(line)

    def of(self, line: str) -> LineForm:
        """That of `line`."""
        template = template_of(line)
        form = self._forms.get(template)
        if form is None:
            form = LineForm(line)
            if len(line) <= _LONGEST and form.is_of(template.decode("utf-8", "surrogatepass")):
                if len(self._forms) >= MOST_FORMS:
                    self._forms.clear()
                self._forms[template] = form
        return form
