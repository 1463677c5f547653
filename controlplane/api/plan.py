"""Change plans: what applying files would do, and whether what was applied has come about."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from controlplane.api.config import MAX_FILES, File, RefusedResponse, find_untold, refuse
from controlplane.api.config_views import ProblemView, view_problem
from controlplane.api.contract_terms import contract_terms
from controlplane.api.deployments import holds_of
from controlplane.api.errors import InvalidBody
from controlplane.api.plan_attempt import attempt
from controlplane.api.plan_replicas import freshest_stats
from controlplane.api.planning import build_plan
from controlplane.api.slo_observed import seen_pages
from controlplane.rollouts.change_plan.change_plan import ChangePlan
from controlplane.specs.documents import parse_documents
from controlplane.specs.installed import INSTALLED_CHECKS
from controlplane.specs.names import Name
from controlplane.store.catalog import StoreCatalog
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment, list_readable_deployments
from controlplane.store.rollouts import StoredRollout, find_last
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["config"])


class PlanRequest(BaseModel):
    """The files whose applying is planned."""

    model_config = ConfigDict(extra="forbid")

    files: Annotated[list[File], Field(min_length=1, max_length=MAX_FILES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResponse:
    """What applying the files would do now. Nothing was changed."""

    plan: ChangePlan
    has_changes: bool
    warnings: list[ProblemView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStanding:
    """A rollout, under way or over."""

    number: int
    state: str
    step: int
    """From 1."""
    num_steps: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStanding:
    """How far a deployment has come."""

    deployment: str
    generation: int
    observed_generation: int
    rollout: RolloutStanding | None
    """The one under way."""
    last_rollout: RolloutStanding | None
    """The newest, also one that is over."""
    hold: str | None
    """Why it gets no replicas now."""
    is_settled: bool
    """What is desired is what runs, and no rollout is under way."""


@router.post(
    "/plan",
    response_model=PlanResponse,
    responses={422: {"model": RefusedResponse | InvalidBody}},
)
def post_plan(body: PlanRequest, request: Request) -> Any:
    """What applying these files would do: to documents by field, to deployments and their
    replicas, and to the last hour's requests; and what has drifted. 422 lists every problem."""
    parsed = parse_documents([(file.name, file.text) for file in body.files], INSTALLED_CHECKS)
    state, now = request.app.state, wall_clock()
    pages = seen_pages(state.observed)
    config_db: Database = state.config_db
    with config_db.reading() as session:
        loaded = parsed.against(StoreCatalog(session), pages)
    problems = (*loaded.problems, *find_untold(request, parsed))
    if problems:
        return refuse(problems)
    with config_db.session() as session:
        loaded = parsed.against(StoreCatalog(session), pages)
        if loaded.problems:
            return refuse(loaded.problems)
        tried = attempt(session, loaded.documents, now)
    stats = freshest_stats(state.observed)
    find_terms = contract_terms(state).find
    plan = build_plan(tried, loaded.documents, stats, state.request_db, find_terms, now)
    return PlanResponse(
        plan=plan,
        has_changes=plan.has_changes,
        warnings=[view_problem(each) for each in loaded.warnings],
    )


MAX_NAMED = 200
"""Deployments in one question: more of them make a longer address than servers take."""


@router.get("/plan/standing")
def get_standing(
    request: Request,
    deployment: Annotated[list[Name] | None, Query(max_length=MAX_NAMED)] = None,
) -> list[DeploymentStanding]:
    """How far deployments have come to what is desired of them: those that are named, or all."""
    config_db: Database = request.app.state.config_db
    with config_db.reading() as session:
        found, _ = list_readable_deployments(session)
        wanted = [each for each in found if deployment is None or each.name in deployment]
        last = {each.name: find_last(session, each.name) for each in wanted}
    holds = holds_of(request.app.state)
    return [_standing(each, last[each.name], holds.get(each.name)) for each in wanted]


def _standing(
    deployment: DesiredDeployment, last: StoredRollout | None, hold: str | None
) -> DeploymentStanding:
    is_observed = deployment.generation == deployment.observed_generation
    return DeploymentStanding(
        deployment=deployment.name,
        generation=deployment.generation,
        observed_generation=deployment.observed_generation,
        rollout=None if deployment.rollout is None else _rollout(deployment.rollout),
        last_rollout=None if last is None else _rollout(last),
        hold=hold,
        is_settled=is_observed and deployment.rollout is None,
    )


def _rollout(rollout: StoredRollout) -> RolloutStanding:
    return RolloutStanding(
        number=rollout.number,
        state=rollout.progress.state.value,
        step=rollout.progress.step + 1,
        num_steps=len(rollout.strategy.steps),
        reason=rollout.progress.reason,
    )
