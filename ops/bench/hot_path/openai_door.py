"""The stub's door for everybody else: OpenAI's streams over HTTP, every write encoded before."""

import msgspec

from ops.bench.hot_path.chunks import ENDING, FIRST_WRITE, WRITE
from ops.bench.hot_path.http_connection import HttpConnection
from ops.bench.hot_path.paced_streams import PacedStream, PacedStreams

_MODELS = b'{"object":"list","data":[{"id":"stub","object":"model","created":0,"owned_by":"stub"}]}'
_ENDPOINT = b"/v1/chat/completions"
# What an adapter asks a vLLM server before it sends it chats.
_SAID = {
    b"/v1/models": _MODELS,
    b"/version": b'{"version":"stub"}',
    b"/health": b"{}",
    b"/v1/completions": b'{"choices":[{"index":0,"text":"-","finish_reason":"length"}]}',
}


class _Body(msgspec.Struct):
    """What is read of a request."""

    stream: bool = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class OpenAIDoor:
    """All HTTP connections of one stub."""

    def __init__(self, num_chunks: int, streams: PacedStreams) -> None:
        self._num_chunks = num_chunks
        self._streams = streams
        self._decoder = msgspec.json.Decoder(_Body)

    def connect(self) -> HttpConnection:
        """A client comes."""
        return HttpConnection(self._handle)

    def put_first(self, stream: PacedStream, now: float) -> None:
        self._write(stream, FIRST_WRITE)

    def put_next(self, stream: PacedStream, now: float) -> None:
        # The last one waits for its end: both are one write.
        if stream.num_sent < stream.num_chunks:
            self._write(stream, WRITE)

    def put_end(self, stream: PacedStream, now: float) -> None:
        connection = _connection(stream)
        connection.on_lost = None
        connection.write(ENDING if stream.num_chunks == 1 else WRITE + ENDING)

    def flush(self) -> None:
        """Nothing waits here."""

    def _handle(self, connection: HttpConnection) -> None:
        said = _SAID.get(connection.path)
        if said is not None:
            connection.answer(200, said)
        elif connection.path != _ENDPOINT:
            connection.answer(404, b'{"error":{"message":"the stub has only chats and models"}}')
        else:
            self._stream(connection)

    def _stream(self, connection: HttpConnection) -> None:
        try:
            body = self._decoder.decode(connection.body)
        except (msgspec.DecodeError, msgspec.ValidationError):
            connection.answer(400, b'{"error":{"message":"the stub cannot read this body"}}')
            return
        if not body.stream:
            connection.answer(400, b'{"error":{"message":"the stub only streams"}}')
            return
        limit = body.max_tokens or body.max_completion_tokens or self._num_chunks
        stream = PacedStream(key=connection, door=self, num_chunks=min(limit, self._num_chunks))
        connection.on_lost = lambda: self._streams.end_early(stream)
        self._streams.begin(stream)

    @staticmethod
    def _write(stream: PacedStream, data: bytes) -> None:
        _connection(stream).write(data)


def _connection(stream: PacedStream) -> HttpConnection:
    assert isinstance(stream.key, HttpConnection)
    return stream.key
