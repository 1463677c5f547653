"""`python -m ops.bench.hot_path.record_taker`: a control plane that keeps nothing.

A gateway under it does all that it does in production: it follows snapshots, reports every
second, keeps its records on disk and delivers them. They are counted here and thrown away, since
what a store would do with them on the client's core is not what is measured.

It prints its address as one line of JSON; GET /counts tells what came, and GET /ends how each
request ended on record, by its id, where it is started with --keep-ends.
"""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

import msgspec
import uvloop

from ops.bench.hot_path.http_connection import HttpConnection

_SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"connection: close\r\n\r\n"
)
_COMMENT_SECONDS = 10.0


class _Record(msgspec.Struct):
    """What is read of a record."""

    request_id: str
    disposition: str


class _Batch(msgspec.Struct):
    """What is read of a batch."""

    records: list[_Record]


class RecordTaker:
    """What gateways are told, and how much they told."""

    def __init__(self, snapshot: bytes, keeps_ends: bool) -> None:
        self._snapshot = snapshot
        self._keeps_ends = keeps_ends
        self._ends: dict[str, str] = {}
        self._decoder = msgspec.json.Decoder(_Batch)
        self.num_records = 0
        self.num_record_bytes = 0
        self.num_reports = 0
        self.last_report = b"null"

    def connect(self) -> HttpConnection:
        """A gateway comes."""
        return HttpConnection(self._handle)

    def _handle(self, connection: HttpConnection) -> None:
        if connection.method == b"GET" and connection.path.endswith(b"/snapshots"):
            self._follow(connection)
        elif connection.method == b"POST" and connection.path == b"/api/v1/records":
            self._take(connection.body)
            connection.answer(200, b"{}")
        elif connection.method == b"PUT":
            self.num_reports += 1
            self.last_report = connection.body
            connection.answer(200, b"{}")
        elif connection.path == b"/counts":
            connection.answer(200, self._counts())
        elif connection.path == b"/ends":
            connection.answer(200, msgspec.json.encode(self._ends))
        else:
            connection.answer(404, b"{}")

    def _take(self, body: bytes) -> None:
        records = self._decoder.decode(body).records
        self.num_records += len(records)
        self.num_record_bytes += len(body)
        if self._keeps_ends:
            self._ends |= {record.request_id: record.disposition for record in records}

    def _counts(self) -> bytes:
        counts = {
            "num_records": self.num_records,
            "num_record_bytes": self.num_record_bytes,
            "num_reports": self.num_reports,
            "last_report": msgspec.Raw(self.last_report),
        }
        return msgspec.json.encode(counts)

    def _follow(self, connection: HttpConnection) -> None:
        connection.write(_SSE_HEAD + b"event: snapshot\ndata: " + self._snapshot + b"\n\n")
        comments = asyncio.create_task(_comment(connection))

        def stop() -> None:
            comments.cancel()

        connection.on_lost = stop


async def _comment(connection: HttpConnection) -> None:
    """So that the gateway knows that somebody is there."""
    while True:
        await asyncio.sleep(_COMMENT_SECONDS)
        connection.write(b": still here\n\n")


async def serve(snapshot: bytes, keeps_ends: bool) -> None:
    """Until SIGTERM."""
    loop = asyncio.get_running_loop()
    taker = RecordTaker(snapshot, keeps_ends)
    server = await loop.create_server(taker.connect, "127.0.0.1", 0)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    host, port = server.sockets[0].getsockname()[:2]
    sys.stdout.write(json.dumps({"http": f"{host}:{port}"}) + "\n")
    sys.stdout.flush()
    await ended.wait()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--snapshot", type=Path, required=True, help="JSON, one line")
    parser.add_argument("--keep-ends", action="store_true", help="for GET /ends")
    options = parser.parse_args()
    uvloop.run(serve(options.snapshot.read_bytes(), options.keep_ends))


if __name__ == "__main__":
    main()
