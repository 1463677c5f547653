"""One request in the terminal: the same life, judgement and reasons as on its page.

Shapes carry the meaning and colour only repeats it, so it reads the same in a log file.
"""

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from controlplane.api.life import Life, Phase
from controlplane.api.reported import BoundaryView, EngineSpanView
from controlplane.api.request_views import JudgementView, RequestDetail, RequestSummary
from controlplane.cli.terminal import printable
from controlplane.console.formatting import clock_time, duration

_COLOURS = {
    "queue": "yellow",
    "prefill": "blue",
    "first_content_transit": "bright_black",
    "decode": "green",
    "delivery": "magenta",
    "cleanup": "bright_black",
    "client": "cyan",
}
_LABELS = {"first_content_transit": "transit"}
_SIGNS = {"page": "▲ ", "ticket": "◆ ", "no_data": "○ ", "ok": ""}
_TONES = {"page": "bold red", "ticket": "bold yellow", "no_data": "", "ok": ""}
_NAME_WIDTH = 9
_TIME_WIDTH = 22


def render_request(detail: RequestDetail, width: int) -> RenderableType:
    """Everything about one request, for a terminal `width` columns wide."""
    parts: list[RenderableType] = [*_heading(detail), Text(), *_life(detail.life, width)]
    if detail.boundaries:
        parts += [Text(), _boundaries(detail.boundaries)]
    if detail.judgement is not None:
        parts += [Text(), _judgement(detail.judgement)]
    parts += [line for span in detail.engine_spans for line in _engine_span(span)]
    parts += [Text(), _reasons(detail)]
    return Group(*parts)


def print_request(console: Console, detail: RequestDetail) -> None:
    """Print it."""
    console.print(render_request(detail, console.width))


def _heading(detail: RequestDetail) -> list[Text]:
    request, headline = detail.request, detail.headline
    when = clock_time(request.arrived_at_unix_ns, detail.as_of_unix_ns)
    lines = [
        Text.assemble((f"request {printable(request.request_id)}", "bold"), f"  {when} UTC"),
        Text(
            _SIGNS.get(headline.tone, "") + printable(headline.text),
            style=_TONES.get(headline.tone, ""),
        ),
    ]
    if headline.remedy:
        lines.append(Text(printable(headline.remedy), style="dim"))
    return lines


def _life(life: Life, width: int) -> list[RenderableType]:
    bar_width = max(20, width - _NAME_WIDTH - _TIME_WIDTH - 3)
    total = life.total_seconds or 0.001
    lines: list[RenderableType] = []
    for phase in life.phases:
        lines.append(_row(phase, total, bar_width))
        if phase.note:
            lines.append(Text(" " * (_NAME_WIDTH + 1) + printable(phase.note), style="dim"))
    lines.append(_axis(total, bar_width))
    lines += [Text(f"○ {printable(remark)}", style="dim") for remark in life.remarks]
    return lines


def _row(phase: Phase, total: float, bar_width: int) -> Text:
    end = total if phase.end_seconds is None else phase.end_seconds
    start_cell = min(int(phase.start_seconds / total * bar_width), bar_width - 1)
    end_cell = max(start_cell + 1, round(end / total * bar_width))
    is_solid = phase.end_seconds is not None and phase.observability == "observed"
    fill = "█" if is_solid else "░"
    if phase.name == "first_content_transit":
        fill = "┄"
    if phase.end_seconds is None:
        spent = "end unknown"
    else:
        spent = str(duration(phase.end_seconds - phase.start_seconds))
        if phase.observability != "observed":
            spent += f" {printable(phase.observability)}"
    bar = [fill] * (end_cell - start_cell)
    for since, until in _held_up(phase, end):
        for cell in range(int(since / total * bar_width), round(until / total * bar_width)):
            if start_cell <= cell < end_cell:
                bar[cell - start_cell] = "╳"
    return Text.assemble(
        f"{printable(_LABELS.get(phase.name, phase.name)):<{_NAME_WIDTH}} ",
        " " * start_cell,
        ("".join(bar), _COLOURS.get(phase.name, "")),
        " " * (bar_width - end_cell),
        f" {spent}",
        no_wrap=True,
    )


def _held_up(phase: Phase, end: float) -> list[tuple[float, float]]:
    """When the request was preempted or paused inside the phase."""
    held, since = [], None
    for mark in phase.marks:
        if mark.kind in ("preempted", "paused"):
            since = mark.at_seconds
        elif since is not None and mark.kind in ("resumed", "tokens"):
            held.append((since, mark.at_seconds))
            since = None
    return held if since is None else [*held, (since, end)]


def _axis(total: float, bar_width: int) -> Text:
    end = str(duration(total))
    line = "0" + " " * max(1, bar_width - 1 - len(end)) + end
    return Text(" " * (_NAME_WIDTH + 1) + line, style="dim")


def _boundaries(boundaries: list[BoundaryView]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("measured at")
    thinks = any(each.shows_reasoning for each in boundaries)
    for name in ("ttft", *(("first answer",) if thinks else ()), "tpot", "e2e"):
        table.add_column(name, justify="right")
    table.add_column("known how")
    for each in boundaries:
        answer = (each.first_answer_seconds,) if thinks else ()
        times = (each.ttft_seconds, *answer, each.tpot_seconds, each.e2e_seconds)
        cells = ["–" if seconds is None else str(duration(seconds)) for seconds in times]
        table.add_row(Text(printable(each.boundary)), *cells, Text(printable(each.known)))
    return table


def _engine_span(span: EngineSpanView) -> list[Text]:
    title = f"{span.source} says in its span {span.name}, on its own clock:"
    figures = ", ".join(f"{name} {value}" for name, value in span.attributes.items())
    return [Text(), Text(printable(title)), Text(printable(figures or "nothing"), style="dim")]


def _judgement(judgement: JudgementView) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("objective")
    table.add_column(Text(f"measured at {printable(judgement.boundary)}"), justify="right")
    table.add_column("at most", justify="right")
    table.add_column("verdict")
    words = {"good": "kept", "bad": "◆ missed", "not_applicable": "○ does not apply"}
    for each in judgement.objectives:
        has_bound = each.at_most_seconds is not None
        measured = _known(each.measured_seconds) if has_bound else "–"
        limit = _known(each.at_most_seconds) if has_bound else "–"
        verdict = Text(words.get(each.verdict) or printable(each.verdict))
        table.add_row(Text(printable(each.signal)), measured, limit, verdict)
    return table


def _reasons(detail: RequestDetail) -> Table:
    request = detail.request
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    replicas = ", then ".join(each.replica_id or "unknown" for each in detail.attempts)
    facts = {
        "deployment": request.deployment,
        "class": request.request_class,
        "tenant": request.tenant,
        "replica": replicas or request.replica_id or _no_replica(request),
        "delivered": request.delivery_text,
        "policy": request.policy_revision,
        "config": None if detail.snapshot_version is None else f"version {detail.snapshot_version}",
        "tokens": f"{_count(request.num_prompt_tokens)} in, {_count(request.num_output_tokens)} out"
        + (", inferred" if detail.are_tokens_inferred else ""),
        "trace": request.trace_id,
    }
    if request.queue_seconds is None:  # otherwise the waterfall shows it
        facts["waited"] = request.why_no_queue_time
    facts |= _decided(detail)
    for name, value in facts.items():
        table.add_row(name, Text(printable(value or "unknown")))
    return table


def _decided(detail: RequestDetail) -> dict[str, str | None]:
    """In one sentence each; the rest is told by `pilothouse explain ID`."""
    explanation = detail.explanation
    if explanation is None:
        return {}
    admission = explanation.admission
    decided = {"admission": explanation.why_none if admission is None else admission.text}
    for each in explanation.routing:
        decided[f"routing {each.attempt + 1}"] = each.text
    return decided


def _no_replica(request: RequestSummary) -> str:
    return "none noted" if request.is_end_unseen else "none"


def _known(seconds: float | None) -> str:
    return "unknown" if seconds is None else str(duration(seconds))


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)
