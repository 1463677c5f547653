"""The encodings of OTLP/HTTP: what a body is in, how it is inflated, how an answer is written."""

import zlib
from enum import StrEnum

import msgspec
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # it ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from controlplane.otlp.received import MAX_BODY_BYTES, NotDecodableError, TooLargeError

_GZIP = 16 + zlib.MAX_WBITS


class Form(StrEnum):
    """How messages are encoded; the value is the content type."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


def find_form(content_type: str | None) -> Form | None:
    """None: neither."""
    word = (content_type or "").partition(";")[0].strip().lower()
    return next((form for form in Form if form.value == word), None)


def inflate(body: bytes, content_encoding: str | None) -> bytes:
    """The body without its compression.

    Raises TooLargeError before more than MAX_BODY_BYTES were inflated, NotDecodableError for
    what is no gzip, LookupError for an encoding that OTLP does not have.
    """
    match (content_encoding or "identity").strip().lower():
        case "identity" | "":
            return body
        case "gzip":
            return _inflate_gzip(body)
        case unknown:
            raise LookupError(f"content-encoding {unknown[:40]!r} is not read; send gzip or none")


def _inflate_gzip(body: bytes) -> bytes:
    inflated = bytearray()
    rest = body
    try:
        while rest:  # a gzip file may have several members
            inflater = zlib.decompressobj(_GZIP)
            inflated += inflater.decompress(rest, MAX_BODY_BYTES + 1 - len(inflated))
            if len(inflated) > MAX_BODY_BYTES:
                raise TooLargeError(f"more than {MAX_BODY_BYTES} bytes when inflated")
            if not inflater.eof:
                raise NotDecodableError("the gzip body is cut short")
            rest = inflater.unused_data
    except zlib.error as error:
        raise NotDecodableError(f"the body is no gzip: {error}") from error
    return bytes(inflated)


def encode_success(form: Form, num_rejected: int, why: str) -> bytes:
    """An ExportTraceServiceResponse; without rejected spans it is empty."""
    if form is Form.JSON:
        partial = {"partialSuccess": {"rejectedSpans": str(num_rejected), "errorMessage": why}}
        return msgspec.json.encode(partial if num_rejected else {})
    if not num_rejected:
        return ExportTraceServiceResponse().SerializeToString()
    partial_success = ExportTracePartialSuccess(rejected_spans=num_rejected, error_message=why)
    return ExportTraceServiceResponse(partial_success=partial_success).SerializeToString()


def encode_failure(form: Form, code: int, message: str) -> bytes:
    """A google.rpc.Status with a gRPC code."""
    if form is Form.JSON:
        return msgspec.json.encode({"code": code, "message": message})
    return bytes(Status(code=code, message=message).SerializeToString())
