"""Records as lines of JSON: whole ones, as gateways spool and `simulate` writes them, and those of
`pilothouse requests --all -o json`."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from controlplane.api.request_views import RequestSummary
from controlplane.diagnosis.sources.input_error import InputError
from controlplane.diagnosis.sources.records.ended_request import (
    EndedRequest,
    of_record,
    of_summary,
)
from dataplane.record import RequestRecord

MOST_CHARACTERS = 1 << 20
"""Of one line. A record of a thousand events has a tenth."""
_OF_WHOLE = '"events":'
"""What only a whole record has; in a text it would stand as `\\"events\\":`."""
_Form = TypeVar("_Form", RequestRecord, RequestSummary)
_WHOLE = msgspec.json.Decoder(RequestRecord)
_SUMMARY = msgspec.json.Decoder(RequestSummary)


def read_lines(lines: Iterable[str], place: str) -> Iterator[tuple[str, EndedRequest]]:
    """(file and line, request) of all lines that hold something. Raises InputError for one that is
    no record."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{place}, line {number}"
            yield where, _read(line, where)


def _read(line: str, where: str) -> EndedRequest:
    if len(line) >= MOST_CHARACTERS:
        raise InputError(
            where,
            f"has more than {MOST_CHARACTERS >> 20} MiB, as no record of a request has",
            "leave out the texts of prompts and answers, or this line",
        )
    if _OF_WHOLE in line:
        return of_record(_decoded(line, where, _WHOLE))
    return of_summary(_decoded(line, where, _SUMMARY))


def _decoded(line: str, where: str, decoder: "msgspec.json.Decoder[_Form]") -> _Form:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InputError(
            where,
            f"is no record of a request: {error}",
            "each line is to be one, as `pilothouse requests --all -o json` and `pilothouse "
            "simulate --records` write them; write the file again, or leave that line out",
        ) from error
