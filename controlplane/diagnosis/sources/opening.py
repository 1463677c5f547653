"""Files, folders and standard input as lines of text, whatever wrote and packed them."""

import codecs
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from controlplane.diagnosis.sources.chunks import Chunks, Told, nobody_told
from controlplane.diagnosis.sources.folder import files_of
from controlplane.diagnosis.sources.input_error import InputError
from controlplane.diagnosis.sources.special_files import refuse_endless_input, refuse_special

_NO_TEXT = {
    b"PK\x03\x04": ("is a zip archive", "unpack it, and give what was in it"),
    b"\x28\xb5\x2f\xfd": ("is packed with zstd", "unpack it first"),
    b"\xfd7zXZ": ("is packed with xz", "unpack it first"),
    b"BZh": ("is packed with bzip2", "unpack it first"),
}
_TAR = slice(257, 262)
"""Where a tar archive says `ustar`."""
_UTF_16 = "utf-16"
_MOST_OF_A_LINE = 1 << 20
"""Characters. A file without line breaks is read in pieces of so many."""
_SHOWN = 80
"""Characters of a line in a message."""


@dataclass(slots=True)
class OpenedText:
    """One text. Its lines can be read once."""

    place: str
    head: str
    """Its first some ten thousand characters."""
    modified: float
    """Unix time; of standard input the present."""
    folder: str | None
    """Where in a folder that was named, empty for its own files; None for what was named itself."""
    _encoding: str
    _first: bytes
    _rest: Iterable[bytes]
    _chunks: Chunks
    _left_out: int = 0
    _most: int = 0
    _is_unended: bool = False
    """No line break stands behind its last line; known once its lines were read."""
    _unended: str | None = None
    """The line that was left out for it."""

    @property
    def shortcomings(self) -> tuple[str, ...]:
        """What is not of it, or was not read, in words; known once its lines were read."""
        said = []
        if self._left_out:
            said.append(
                f"its newest {self._most >> 20} MiB were read, and {self._left_out >> 20} MiB "
                "before them were not: where an earlier time is meant, cut that out of it and "
                "give it alone"
            )
        if self._unended is not None:
            said.append(
                f"its last line, {self._unended[:_SHOWN]}, has no end and was left out: it may "
                "lack digits, and lines behind it may be missing; save it again, whole"
            )
        return (*said, *self._chunks.shortcomings)

    def keep_newest(self, most: int) -> None:
        """Of what has more than `most` bytes the newest are read, from the beginning of a line."""
        if self._encoding == _UTF_16:  # cut in the middle it would be read as something else
            return
        self._most = most
        passed = self._chunks.pass_to_newest(most)
        if passed:
            self._begin(next(self._chunks, b""), passed)
        elif not self._chunks.is_whole_known:
            kept, dropped = _newest([self._first], self._chunks, most)
            first = kept.popleft()
            self._rest = kept
            if dropped:
                self._begin(first, dropped)

    def _begin(self, first: bytes, left_out: int) -> None:
        cut, _, whole = first.partition(b"\n")
        self._first = whole
        self._left_out = left_out + len(cut)
        self.head = whole.decode(self._encoding, errors="replace")

    def lines(self) -> Iterator[str]:
        """All of it; bytes that are none of the encoding become replacement characters."""
        decoder = codecs.getincrementaldecoder(self._encoding)(errors="replace")
        begun = ""
        for chunk in itertools.chain([self._first], self._rest):
            *whole, begun = (begun + decoder.decode(chunk)).split("\n")
            yield from whole
            if len(begun) > _MOST_OF_A_LINE:
                yield begun
                begun = ""
        begun += decoder.decode(b"", final=True)
        if begun:
            self._is_unended = not begun.endswith("\r")
            yield begun

    def ended_lines(self, needs_end: Callable[[str], bool]) -> Iterator[str]:
        """`lines` without a last one that nothing ends, where such a one `needs_end`: of a number
        nobody could say whether its last digits are there."""
        held: str | None = None
        for line in self.lines():
            if held is not None:
                yield held
            held = line
        if held is not None and self._is_unended and needs_end(held):
            self._unended = held
        elif held is not None:
            yield held

    def text(self, most: int | None = None) -> str:
        """All of it at once; of what has more than `most` characters a beginning that has, too."""
        kept: list[str] = []
        num_characters = 0
        for line in self.lines():
            kept.append(line.removesuffix("\r"))
            num_characters += len(line) + 1
            if most is not None and num_characters > most:
                break
        return "\n".join(kept) + "\n"


def _newest(begun: Sequence[bytes], chunks: Iterable[bytes], most: int) -> tuple[deque[bytes], int]:
    """The last chunks that have `most` bytes together, and how many bytes were before them."""
    kept = deque(begun)
    size, dropped = sum(map(len, kept)), 0
    for chunk in chunks:
        kept.append(chunk)
        size += len(chunk)
        while size - len(kept[0]) >= most:
            dropped += len(kept[0])
            size -= len(kept.popleft())
    return kept, dropped


def open_inputs(
    names: Sequence[str], stdin: BinaryIO, told: Told = nobody_told
) -> Iterator[OpenedText | InputError]:
    """Each file that is named, `-` for standard input, and each of a folder that is; one is open at
    a time. What cannot be read raises InputError where it was named, and is told where it only
    lies in a folder. `told` hears how far each is read."""
    if names.count("-") > 1:
        raise InputError("-", "is given twice", "standard input can be read once: give - once")
    for name in names:
        path = Path(name)
        if name == "-":
            refuse_endless_input(stdin)
            yield _opened(Chunks("standard input", stdin, told=told), time.time(), None)
        elif _is_folder(path):
            for file in files_of(path):
                if isinstance(file, InputError):
                    yield file
                    continue
                folder = file.parent.relative_to(path).as_posix()
                try:
                    yield from _file(file, "" if folder == "." else folder, told)
                except InputError as error:
                    yield error
        else:
            yield from _file(path, None, told)


def _file(file: Path, folder: str | None, told: Told) -> Iterator[OpenedText]:
    try:
        refuse_special(file)
        with file.open("rb") as stream:
            known = os.fstat(stream.fileno())
            chunks = Chunks(str(file), stream, size=known.st_size, told=told)
            yield _opened(chunks, known.st_mtime, folder)
    except OSError as error:
        raise InputError(
            str(file),
            f"cannot be read: {error.strerror or error}",
            "name files that are there and that you may read",
        ) from error


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _opened(chunks: Chunks, modified: float, folder: str | None) -> OpenedText:
    place, first = chunks.place, next(chunks, b"")
    if not first and chunks.shortcomings:
        raise InputError(place, "holds nothing but NUL bytes", "save the log there again")
    if not first.strip():
        raise InputError(place, "is empty", "save the engine's /metrics or its log there again")
    for magic, (what, remedy) in _NO_TEXT.items():
        if first.startswith(magic):
            raise InputError(place, what, remedy)
    if first[_TAR] == b"ustar":
        raise InputError(place, "is a tar archive", "unpack it, and name the folder")
    is_utf16 = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not is_utf16 and b"\x00" in first:
        raise InputError(place, "is no text", "give saved metrics pages, logs, or a case in YAML")
    encoding = _UTF_16 if is_utf16 else "utf-8-sig"
    head = codecs.getincrementaldecoder(encoding)(errors="replace").decode(first)
    return OpenedText(place, head, modified, folder, encoding, first, chunks, chunks)
