"""Rollouts: the list, and one page a rollout. What somebody asks of one is first shown with what it
would do; only then it can be done."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi import Path as PathField
from fastapi.responses import RedirectResponse, Response

from controlplane.api.authentication import principal_of
from controlplane.api.authorization import find_refusal
from controlplane.api.free_text import check_free_text
from controlplane.api.rollout_asked import Asked
from controlplane.api.rollout_reading import UnknownRolloutError, read_rollout, read_rollouts
from controlplane.api.rollout_views import RolloutDetail, RolloutPlan
from controlplane.api.rollouts import RefusedDemandError, make_demand, plan_demand
from controlplane.console.answers import error_page, page, sentence
from controlplane.console.forms import check_form
from controlplane.console.interval_bar import draw_interval, margin_place, zero_place
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form(max_length=1024)]
Number = Annotated[int, PathField(ge=1, lt=2**63)]
_MAX_SHOWN = 100
_WORDS = {
    Asked.PROMOTE: "Promote",
    Asked.PAUSE: "Pause",
    Asked.RESUME: "Resume",
    Asked.ABORT: "Abort",
    Asked.RETRY: "Retry",
}
_REMEDY = "The list of rollouts has those there are."


@router.get("/rollouts")
def rollouts(request: Request) -> Response:
    """What is under way, and what was."""
    deployment = request.query_params.get("deployment", "").strip()[:128]
    state, now = request.app.state, wall_clock()
    living = read_rollouts(state, now, deployment or None, is_living=True, limit=_MAX_SHOWN)
    newest = read_rollouts(state, now, deployment or None, limit=_MAX_SHOWN)
    return page(
        "rollouts.html",
        page="rollouts",
        now=now,
        deployment=deployment,
        living=living.rollouts,
        over=[each for each in newest.rollouts if each.ended_at_unix_ns is not None],
        url=str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
    )


@router.get("/rollouts/{number}")
def rollout(number: Number, request: Request) -> Response:
    """Where it is and why, how the arms compare, what was done; with `ask`, what that would do."""
    asked = request.query_params.get("ask", "")
    if not asked:
        return _page(request, number)
    if asked not in _WORDS:
        return error_page(422, f"Nobody can ask {asked[:32]!r} of a rollout.", menu="rollouts")
    try:
        plan = plan_demand(request.app.state, number, Asked(asked))
    except UnknownRolloutError as error:
        return error_page(404, sentence(error), _REMEDY, menu="rollouts")
    except RefusedDemandError as error:
        return _page(request, number, problem=sentence(error))
    return _page(request, number, plan=plan)


@router.post("/rollouts/{number}", dependencies=[Depends(check_form)])
def ask(
    number: Number,
    request: Request,
    asked: Text,
    step: Annotated[int, Form(ge=1, le=1000)],
    reason: Text = "",
) -> Response:
    """Do it, or show the page again with what stood in the way."""
    try:
        wanted, why = Asked(asked), check_free_text(reason).strip()
    except ValueError as error:
        return _page(request, number, problem=sentence(error))
    if not why:
        plan = plan_demand(request.app.state, number, wanted)
        return _page(request, number, problem="Say why.", plan=plan)
    try:
        moved = make_demand(request, number, wanted, why, step)
    except UnknownRolloutError as error:
        return error_page(404, sentence(error), _REMEDY, menu="rollouts")
    except RefusedDemandError as error:
        return _page(request, number, problem=sentence(error))
    return RedirectResponse(f"/rollouts/{moved}", 303)


def _page(
    request: Request, number: int, problem: str = "", plan: RolloutPlan | None = None
) -> Response:
    now = wall_clock()
    try:
        view = read_rollout(request.app.state, number, now)
    except UnknownRolloutError as error:
        return error_page(404, sentence(error), _REMEDY, menu="rollouts")
    may_change = find_refusal(principal_of(request), "POST", "/rollouts/{number}") is None
    return page(
        "rollout.html",
        422 if problem else 200,
        page="rollouts",
        now=now,
        view=view,
        plan=plan,
        problem=problem,
        may_change=may_change,
        words={each.value: word for each, word in _WORDS.items()},
        decided=_decided(view),
        draw=draw_interval,
        zero=zero_place(),
        margin=margin_place(),
    )


def _decided(view: RolloutDetail) -> int | None:
    """Which line of the history has what was measured last; None: nothing was ever."""
    measured = [
        number
        for number, move in enumerate(view.moves)
        if move.comparisons or move.standings or move.shadow
    ]
    return measured[-1] if measured else None
