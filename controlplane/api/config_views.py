"""Revisions, deployments and problems as the config API shows them."""

from typing import Any

from pydantic import BaseModel

from controlplane.specs.problem import Problem
from controlplane.store.deployments import DeploymentChange, DesiredDeployment
from controlplane.store.desired_revisions import DesiredRevisions
from controlplane.store.revision import Revision
from controlplane.store.revisions import Applied


class ProblemView(BaseModel):
    """A problem or a warning; line and column count from 1."""

    file: str
    line: int
    column: int
    key: str
    message: str


class AppliedView(BaseModel):
    """One document after it was applied."""

    kind: str
    name: str
    number: int
    revision: str
    digest: str
    change: str
    """created, updated or unchanged."""


class DesiredView(BaseModel):
    """The exact revisions a deployment stands for, each as `name@number`."""

    model: str
    engine_config: str
    policy: str
    contract: str | None


class DeploymentView(BaseModel):
    """Where a deployment stands."""

    desired: DesiredView
    replicas: int
    launcher: str
    generation: int
    observed_generation: int
    updated_at_unix_ns: int


class RevisionView(BaseModel):
    """One revision of one document."""

    kind: str
    name: str
    number: int
    revision: str
    digest: str
    author: str
    reason: str
    created_at_unix_ns: int
    document: dict[str, Any]
    deployment: DeploymentView | None = None
    """Of a Deployment's latest revision."""


class ChangeView(BaseModel):
    """What was desired of a deployment from `at_unix_ns` on."""

    generation: int
    revision: str
    desired: DesiredView
    author: str
    reason: str
    at_unix_ns: int


def view_problem(problem: Problem) -> ProblemView:
    """As the API shows it."""
    return ProblemView(
        file=problem.file,
        line=problem.line,
        column=problem.column,
        key=problem.key,
        message=problem.message,
    )


def view_applied(applied: Applied) -> AppliedView:
    """As the API shows it."""
    return AppliedView(
        kind=applied.kind.value,
        name=applied.name,
        number=applied.number,
        revision=applied.label,
        digest=applied.digest,
        change=applied.change.value,
    )


def view_revision(revision: Revision, deployment: DeploymentView | None = None) -> RevisionView:
    """As the API shows it."""
    return RevisionView(
        kind=revision.kind.value,
        name=revision.name,
        number=revision.number,
        revision=revision.label,
        digest=revision.digest,
        author=revision.author,
        reason=revision.reason,
        created_at_unix_ns=revision.created_at_unix_ns,
        document=revision.document,
        deployment=deployment,
    )


def view_deployment(deployment: DesiredDeployment) -> DeploymentView:
    """As the API shows it."""
    return DeploymentView(
        desired=_view_desired(deployment.revisions),
        replicas=deployment.spec.replicas,
        launcher=deployment.spec.launcher,
        generation=deployment.generation,
        observed_generation=deployment.observed_generation,
        updated_at_unix_ns=deployment.updated_at_unix_ns,
    )


def view_change(change: DeploymentChange) -> ChangeView:
    """As the API shows it."""
    return ChangeView(
        generation=change.generation,
        revision=change.revisions.deployment.label,
        desired=_view_desired(change.revisions),
        author=change.author,
        reason=change.reason,
        at_unix_ns=change.at_unix_ns,
    )


def _view_desired(revisions: DesiredRevisions) -> DesiredView:
    return DesiredView(
        model=revisions.model.label,
        engine_config=revisions.engine_config.label,
        policy=revisions.policy.label,
        contract=revisions.contract.label if revisions.contract else None,
    )
