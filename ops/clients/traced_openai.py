"""The official `openai` client, with a span of every streamed answer: when its content came.

    .venv/bin/python ops/clients/traced_openai.py "What is the capital of France?"

prints the answer, and sends what this side saw to the control plane, which shows it beside the
server's side: `pilothouse trace <trace id>`. It needs `openai`, `opentelemetry-sdk` and
`opentelemetry-exporter-otlp-proto-http`, and nothing of Pilothouse: copy it.

One span, kind CLIENT, says all of it. It starts at the send, has an event at the first nonempty
content, at the first of the answer (which a reasoning model gives later) and at the last, and the
request carries its id in `traceparent`. Only durations on this machine's clock are read from it.
With authentication the exporter sends a key:
`OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer phk_..."`.
"""

import argparse
import os
import time
from collections.abc import Generator, Iterator
from typing import Any

from openai import OpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

FIRST_CONTENT = "pilothouse.client.first_content"
FIRST_ANSWER = "pilothouse.client.first_answer"
FINAL_CONTENT = "pilothouse.client.final_content"
MAX_CHUNK_GAP = "pilothouse.client.max_chunk_gap_seconds"


def create_provider(control_plane: str, service: str) -> TracerProvider:
    """Spans go to the control plane in the background; call `shutdown` at the end to flush."""
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
    exporter = OTLPSpanExporter(endpoint=f"{control_plane.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def stream_chat(
    client: OpenAI, tracer: Tracer, model: str, **parameters: Any
) -> Generator[str, None, None]:
    """The pieces of a streamed answer as they come. Breaking off early leaves no final content."""
    with tracer.start_as_current_span(f"chat {model}", kind=SpanKind.CLIENT) as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.request.model", model)
        span.set_attribute("gen_ai.request.stream", True)
        headers: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(headers)
        try:
            with client.chat.completions.create(
                model=model, stream=True, extra_headers=headers, **parameters
            ) as chunks:
                yield from _watch(span, chunks)
        except GeneratorExit:
            span.set_attribute("error.type", "cancelled")
            raise
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            raise


def _watch(span: Span, chunks: Any) -> Iterator[str]:
    last_unix_ns, longest, last_at, has_answer = 0, 0.0, 0.0, False
    for chunk in chunks:
        span.set_attribute("gen_ai.response.id", chunk.id)
        delta = chunk.choices[0].delta if chunk.choices else None
        content = delta.content if delta else None
        if not content and not _reasoning(delta):
            continue
        now_unix_ns, now = time.time_ns(), time.monotonic()
        if last_unix_ns == 0:
            span.add_event(FIRST_CONTENT, timestamp=now_unix_ns)
        else:
            longest = max(longest, now - last_at)
        last_unix_ns, last_at = now_unix_ns, now
        if content:
            if not has_answer:
                span.add_event(FIRST_ANSWER, timestamp=now_unix_ns)
            has_answer = True
            yield content
    if last_unix_ns:
        span.set_attribute(MAX_CHUNK_GAP, longest)
        span.add_event(FINAL_CONTENT, timestamp=last_unix_ns)


def _reasoning(delta: Any) -> str | None:
    """What a reasoning model thinks aloud before it answers, where its engine sets it apart."""
    return getattr(delta, "reasoning", None) or getattr(delta, "reasoning_content", None)


def main() -> None:
    """Ask once."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("question")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--gateway", default="http://127.0.0.1:8701", help="without /v1")
    parser.add_argument("--control-plane", default="http://127.0.0.1:8700")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    arguments = parser.parse_args()
    provider = create_provider(arguments.control_plane, "traced_openai")
    key = os.environ.get("OPENAI_API_KEY", "none")
    client = OpenAI(base_url=f"{arguments.gateway}/v1", api_key=key)
    with provider.get_tracer("traced_openai").start_as_current_span("question") as span:
        pieces = stream_chat(
            client,
            provider.get_tracer("traced_openai"),
            arguments.model,
            messages=[{"role": "user", "content": arguments.question}],
            max_tokens=arguments.max_tokens,
            temperature=arguments.temperature,
        )
        for piece in pieces:
            print(piece, end="", flush=True)
    provider.shutdown()
    print(f"\n\npilothouse trace {trace.format_trace_id(span.get_span_context().trace_id)}")


if __name__ == "__main__":
    main()
