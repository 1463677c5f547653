"""Break-glass: what is decided over a policy's head now, and the forms that begin and end it."""

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import State

from controlplane.api.authentication import principal_of
from controlplane.api.authorization import find_refusal
from controlplane.api.overrides import finish_override, make_override, read_overrides
from controlplane.console.answers import page, sentence
from controlplane.console.forms import check_form
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.quantity import parse_duration
from controlplane.store.database import Database
from controlplane.store.deployments import list_readable_deployments
from controlplane.store.overrides import NewOverride, OverrideError, StoredOverride
from dataplane.arm import Arm
from dataplane.clock import wall_clock
from dataplane.policy import OverrideKind

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form(max_length=1024)]
_MAX_SHOWN = 100


@router.get("/break-glass")
def show(request: Request) -> Response:
    """What is in force, what was, and the forms."""
    return _page(request)


@router.post("/break-glass", dependencies=[Depends(check_form)])
def begin(
    request: Request,
    kind: Text,
    lasts: Text,
    reason: Text,
    deployment: Text = "",
    policy: Text = "",
    replicas: Text = "",
    request_class: Text = "",
    tenant: Text = "",
    arm: Text = "",
    may_be_longer: Text = "",
) -> Response:
    """Make one."""

    def make() -> StoredOverride:
        return make_override(
            request,
            NewOverride(
                kind=OverrideKind(kind),
                deployment=deployment or None,
                reason=reason,
                seconds=parse_duration(lasts.strip()),
                policy=policy.strip() or None,
                replica_ids=tuple(replicas.replace(",", " ").split()),
                request_class=request_class.strip() or None,
                tenant=tenant.strip() or None,
                arm=Arm(arm) if arm else None,
                may_be_longer=may_be_longer == "true",
            ),
        )

    given = {
        "kind": kind,
        "deployment": deployment,
        "lasts": lasts,
        "reason": reason,
        "policy": policy,
        "replicas": replicas,
        "request_class": request_class,
        "tenant": tenant,
        "arm": arm,
        "may_be_longer": may_be_longer,
    }
    return _change(request, make, given)


@router.post("/break-glass/end", dependencies=[Depends(check_form)])
def end(request: Request, override_id: Text, reason: Text) -> Response:
    """End one before its time."""
    return _change(request, lambda: finish_override(request, override_id, reason), {})


def _change(
    request: Request, change: Callable[[], StoredOverride], given: Mapping[str, str]
) -> Response:
    """Do it, or show the page again with what stood in the way and the form as it was filled."""
    try:
        change()
    except (OverrideError, ValueError) as error:
        return _page(request, problem=sentence(error), given=given)
    return RedirectResponse("/break-glass", 303)


def _page(request: Request, problem: str = "", given: Mapping[str, str] | None = None) -> Response:
    state, now = request.app.state, wall_clock()
    view = read_overrides(state, now, include_ended=True, limit=_MAX_SHOWN)
    return page(
        "break_glass.html",
        422 if problem else 200,
        page="break-glass",
        now=now,
        in_force=[each for each in view.overrides if each.is_in_force],
        ended=[each for each in view.overrides if not each.is_in_force],
        may_change=find_refusal(principal_of(request), "POST", "/break-glass") is None,
        choices=_choices(state),
        problem=problem,
        given=given or {},
    )


def _choices(state: State) -> dict[str, list[str]]:
    """What the forms offer."""
    database: Database = state.config_db
    with database.reading() as session:
        deployments, _ = list_readable_deployments(session)
    classes = {
        each.name
        for deployment in deployments
        for each in deployment.revisions.policy.spec(AdmissionPolicySpec).classes
    }
    return {
        "deployments": [each.name for each in deployments],
        "policies": sorted({each.revisions.policy.label for each in deployments}),
        "replicas": [each.replica_id for each in state.observed.replicas()],
        "classes": sorted(classes),
    }
