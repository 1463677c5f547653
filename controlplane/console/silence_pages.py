"""Silences and maintenance windows: what is kept back now, what is planned, and the forms. A form
first shows what it would keep back; only then it can be made."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import State

from controlplane.api.authentication import principal_of
from controlplane.api.authorization import find_refusal
from controlplane.api.free_text import check_free_text
from controlplane.api.planned_instant import parse_begin
from controlplane.api.silence_views import IN_FORCE, OVER, PLANNED, SilencePlan
from controlplane.api.silences import MAX_LISTED, finish_silence, make_silence, plan, read_silences
from controlplane.console.answers import page, sentence
from controlplane.console.forms import check_form
from controlplane.slo.alert_windows import Severity
from controlplane.slo.promised_now import promises_now
from controlplane.slo.silences import SilenceKind, SilenceScope
from controlplane.specs.quantity import parse_duration
from controlplane.store.deployments import list_readable_deployments
from controlplane.store.silences import NewSilence
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form(max_length=1024)]
EVERYTHING = "*"
"""What the form says for every deployment; no deployment can be called so."""
_MAX_SHOWN = 100
_LINKED = ("deployment", "request_class", "objective")
"""What a link to the form may fill in."""


class SilenceForm:
    """The fields of the form, as they were filled in: a dependency. What was left empty is told on
    the page, beside the rest of the form."""

    def __init__(
        self,
        kind: Text = "",
        deployment: Text = "",
        lasts: Text = "",
        reason: Text = "",
        begins: Text = "",
        request_class: Text = "",
        objective: Text = "",
        severity: Text = "",
        may_be_longer: Text = "",
    ) -> None:
        self.given = {
            "kind": kind,
            "deployment": deployment,
            "lasts": lasts,
            "reason": reason,
            "begins": begins,
            "request_class": request_class,
            "objective": objective,
            "severity": severity,
            "may_be_longer": may_be_longer,
        }

    def wanted(self) -> NewSilence:
        """What it asks for. Raises ValueError."""
        given = {name: text.strip() for name, text in self.given.items()}
        is_of_everything = given["deployment"] == EVERYTHING
        return NewSilence(
            kind=SilenceKind(given["kind"]),
            scope=SilenceScope(
                deployment=None if is_of_everything else given["deployment"] or None,
                request_class=given["request_class"] or None,
                objective=given["objective"] or None,
                severity=Severity(given["severity"]) if given["severity"] else None,
            ),
            reason=check_free_text(given["reason"]),
            seconds=parse_duration(given["lasts"]),
            from_unix_ns=parse_begin(given["begins"], wall_clock()),
            may_be_longer=given["may_be_longer"] == "true",
            is_of_everything=is_of_everything,
        )


@router.get("/silences")
def show(request: Request) -> Response:
    """What is kept back, what is planned, what was, and the forms; a link may fill one in."""
    linked = {name: request.query_params.get(name, "")[:1024] for name in _LINKED}
    return _page(request, given=linked if any(linked.values()) else None)


@router.post("/silences/plan", dependencies=[Depends(check_form)])
def look(request: Request, form: Annotated[SilenceForm, Depends()]) -> Response:
    """Show what it would keep back, and what the last hour says of that."""
    try:
        planned = plan(request, form.wanted())
    except ValueError as error:
        return _page(request, problem=sentence(error), given=form.given)
    return _page(request, given=form.given, planned=planned)


@router.post("/silences", dependencies=[Depends(check_form)])
def begin(request: Request, form: Annotated[SilenceForm, Depends()]) -> Response:
    """Make it."""
    try:
        make_silence(request, form.wanted())
    except ValueError as error:
        return _page(request, problem=sentence(error), given=form.given)
    return RedirectResponse("/silences", 303)


@router.post("/silences/end", dependencies=[Depends(check_form)])
def end(request: Request, silence_id: Text, reason: Text) -> Response:
    """End one before its time, or call it off."""
    try:
        finish_silence(request, silence_id, check_free_text(reason))
    except ValueError as error:
        return _page(request, problem=sentence(error))
    return RedirectResponse("/silences", 303)


def _page(
    request: Request,
    problem: str = "",
    given: Mapping[str, str] | None = None,
    planned: SilencePlan | None = None,
) -> Response:
    state, now = request.app.state, wall_clock()
    not_over = read_silences(state, now, limit=MAX_LISTED).silences
    newest = read_silences(state, now, include_over=True, limit=_MAX_SHOWN).silences
    return page(
        "silences.html",
        422 if problem else 200,
        page="slo",
        now=now,
        in_force=[each for each in not_over if each.state == IN_FORCE],
        ahead=[each for each in not_over if each.state == PLANNED],
        over=[each for each in newest if each.state == OVER],
        may_change=find_refusal(principal_of(request), "POST", "/silences") is None,
        choices=_choices(state),
        everything=EVERYTHING,
        problem=problem,
        given=given or {},
        planned=planned,
    )


def _choices(state: State) -> dict[str, list[str]]:
    """What the forms offer."""
    with state.config_db.reading() as session:
        deployments, _ = list_readable_deployments(session)
    promises = list(promises_now(deployments))
    return {
        "deployments": [each.name for each in deployments],
        "classes": sorted({each.request_class for each in promises}),
        "objectives": sorted({each.objective for each in promises}),
    }
