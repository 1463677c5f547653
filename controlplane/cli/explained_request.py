"""Why one request went as it did, in the terminal."""

from collections.abc import Iterator
from urllib.parse import quote

from controlplane.api.explanation import (
    ExplainedAdmission,
    ExplainedRouting,
    ExplainedSignal,
    Explanation,
)
from controlplane.api.quantities import amount
from controlplane.api.request_views import RequestDetail
from controlplane.cli.client import convert_answer, get_json
from controlplane.cli.terminal import indented, table

_ONLY_ROW = (
    "○ Only the compact row of this request was kept: what it was decided on is not known. Full "
    "records are kept of errors, of what missed its contract, and of a sample."
)


def explain_request(url: str, request_id: str) -> tuple[Explanation | None, str]:
    """Its decisions, and the same as text. Raises RefusedError for one that nobody knows."""
    answer = get_json(url, f"/api/v1/requests/{quote(request_id, safe='')}")
    detail = convert_answer(url, answer, RequestDetail)
    return detail.explanation, explanation_text(detail)


def explanation_text(detail: RequestDetail) -> str:
    """Every decision in order, each in its words and with what it read."""
    head = f"request {detail.request.request_id}: {detail.headline.text}"
    explanation = detail.explanation
    if explanation is None:
        return f"{head}\n\n{_ONLY_ROW}"
    parts = [head, ""]
    if explanation.admission is None:
        parts.append(f"○ {explanation.why_none}")
    else:
        parts += _admission(explanation.admission)
    if explanation.shadow is not None:
        parts.append(f"In shadow: {explanation.shadow.text} (rollout {explanation.shadow.rollout})")
    for each in explanation.routing:
        parts += ["", *_routing(each)]
    parts += ["", f"Its whole life: pilothouse trace {detail.request.request_id}"]
    return "\n".join(parts)


def _admission(admission: ExplainedAdmission) -> Iterator[str]:
    yield f"Admission: {admission.text}"
    yield f"It knew:   {admission.knew}"
    yield f"Otherwise: {admission.otherwise}"
    for each in admission.overrides:
        yield f"Override:  ◆ {each.effect} ({each.override_id}; see `pilothouse override list`)"
    if admission.signals:
        yield indented(table([_HEAD, *map(_row, admission.signals)])).rstrip("\n")


def _routing(routing: ExplainedRouting) -> Iterator[str]:
    yield f"Attempt {routing.attempt + 1}: {routing.text}"
    yield f"It knew:   {routing.knew}"
    yield f"Otherwise: {routing.otherwise}"
    for what in routing.degraded:
        yield f"Without:   ○ {what}"
    rows = [("REPLICA", "SCORE", "WENT BY")]
    for each in routing.candidates:
        went_by = ", ".join(_short(signal) for signal in each.signals)
        why_not = "" if each.why_not is None else f"○ {each.why_not}"
        rows.append(
            (
                f"{'* ' if each.is_chosen else '  '}{each.replica_id}",
                "-" if each.score is None else amount(each.score, ""),
                "; ".join(part for part in (why_not, went_by) if part) or "-",
            )
        )
    if len(rows) > 1:
        yield indented(table(rows)).rstrip("\n")
    if routing.num_left_out:
        yield f"  and {routing.num_left_out} more"


_HEAD = ("READ", "VALUE", "HELD AGAINST", "TOLD BY", "AGE THEN", "USED")


def _row(signal: ExplainedSignal) -> tuple[str, ...]:
    used = "◆ decided" if signal.is_decisive else "yes" if signal.is_used else "○ did without"
    return (
        signal.name,
        amount(signal.value, signal.unit),
        "-" if signal.limit is None else amount(signal.limit, signal.unit),
        signal.source,
        _age(signal),
        used,
    )


def _age(signal: ExplainedSignal) -> str:
    if signal.age_seconds is None or signal.value is None:
        return "never told"
    return "counted then" if signal.age_seconds == 0 else amount(signal.age_seconds, "s")


def _short(signal: ExplainedSignal) -> str:
    text = f"{signal.name} {amount(signal.value, signal.unit)}"
    age = f"{amount(signal.age_seconds, 's')} old" if signal.age_seconds else ""
    if not signal.is_used:
        return f"{text} (not used{', ' + age if age else ''})"
    return f"{text} ({age})" if age else text
