"""`pilothouse trace`: the whole life of one request, even while it lives."""

from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from controlplane.cli.client import RefusedError, convert_answer, get_json, url_option
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.options import table_option
from controlplane.cli.requests import get_live, silent_gateways
from controlplane.cli.terminal import create_console, say, say_json

if TYPE_CHECKING:
    from controlplane.api.live import LiveRequest


@click.command(
    epilog=examples(
        ("pilothouse trace 3f9c12ab", "the beginning of an id is enough if no other begins so"),
        ("pilothouse trace 3f9c12ab -o json", "with every event, for a program"),
    )
)
@click.argument("request_id", metavar="ID")
@table_option("what the API answers.")
@url_option
def trace(request_id: str, output: str, url: str) -> None:
    """Show the whole life of one request: where its time went, and why.

    ID is its request id, its trace id, or the beginning of one if no other begins so; the
    gateway gives it back in the header x-request-id. A request in flight is shown as far as it
    has come.

    The client's side is there where the client reports it: one OTLP span per call, sent to
    /v1/traces of the control plane as http/protobuf or JSON (there is no gRPC; see ops/clients).
    """
    try:
        answer = get_json(url, f"/api/v1/requests/{quote(request_id, safe='')}")
    except RefusedError as error:
        if error.exit_code != ExitCode.NOT_FOUND:
            raise
        _say_in_flight(url, request_id, output, error)
        return
    if output == "json":
        say_json(answer)
        return
    from controlplane.api.request_views import RequestDetail
    from controlplane.cli.waterfall import print_request

    print_request(create_console(), convert_answer(url, answer, RequestDetail))


def _say_in_flight(url: str, request_id: str, output: str, unknown: RefusedError) -> None:
    """Raises `unknown` when no gateway has it either."""
    live = get_live(url, get_json(url, "/api/v1/requests/live"))
    ids = [(each, (each.request_id, each.trace_id)) for each in live.requests]
    matches = [each for each, both in ids if request_id in both]
    matches = matches or [
        each for each, both in ids if any(known.startswith(request_id) for known in both)
    ]
    if len(matches) > 1:
        several = ", ".join(each.request_id for each in matches[:5])
        message = f"{request_id!r} begins several requests in flight: {several}"
        raise CallError(message, ExitCode.FAILED)
    if not matches:
        for line in silent_gateways(live):
            say(line, is_error=True)
        raise unknown
    if output == "json":
        say_json({"in_flight": asdict(matches[0])})
    else:
        say(_in_flight_text(matches[0]))


def _in_flight_text(request: "LiveRequest") -> str:
    from controlplane.cli.terminal import table
    from controlplane.console.formatting import duration

    prompt, output, most = (
        "unknown" if number is None else str(number)
        for number in (
            request.num_prompt_tokens,
            request.num_output_tokens,
            request.max_output_tokens,
        )
    )
    facts = [
        ("state", f"{request.state}, waits for {request.waits_for}"),
        *_queue_facts(request),
        ("age", str(duration(request.age_seconds))),
        ("deployment", request.deployment or "unknown"),
        ("class", request.request_class or "unknown"),
        ("tenant", request.tenant or "unknown"),
        ("replica", request.replica_id or "none yet"),
        ("tokens", f"{prompt} in, {output} of at most {most} out"),
        ("trace", request.trace_id),
    ]
    head = f"request {request.request_id} is in flight; its waterfall is there when it has ended"
    return f"{head}\n{table(facts)}"


def _queue_facts(request: "LiveRequest") -> list[tuple[str, str]]:
    from controlplane.console.formatting import duration

    place, age = request.queue_position, request.queue_age_seconds
    if place is None:
        return []
    before = "next" if place == 1 else f"{place - 1} before it"
    return [("queue", before if age is None else f"{before}, in it for {duration(age)}")]
