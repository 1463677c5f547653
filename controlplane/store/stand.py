"""How everything stands at one moment: what a plan compares, and what it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.rollouts.change_plan.world import World
from controlplane.specs.kind import Kind
from controlplane.store.deployments import DesiredDeployment, list_readable_deployments
from controlplane.store.revision import Revision
from controlplane.store.revisions import list_latest
from controlplane.store.rollout_tables import RolloutRow
from controlplane.store.tables import DeploymentRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Of the whole config."""

    latest: Mapping[tuple[Kind, str], Revision]
    """The latest revision of every document."""
    deployments: Mapping[str, DesiredDeployment]
    """Those that this version can read."""


def read_stand(session: Session) -> Stand:
    """As `session` sees it."""
    readable, _ = list_readable_deployments(session)
    return Stand(
        latest={(each.kind, each.name): each for each in list_latest(session)},
        deployments={each.name: each for each in readable},
    )


def read_world(session: Session) -> World:
    """What decides what applying documents would do."""
    last = select(func.max(RolloutRow.number)).group_by(RolloutRow.deployment)
    rollouts = session.execute(
        select(RolloutRow.deployment, RolloutRow.number, RolloutRow.state).where(
            RolloutRow.number.in_(last)
        )
    )
    generations = session.execute(select(DeploymentRow.name, DeploymentRow.generation))
    return World(
        latest={
            f"{each.kind}/{each.name}": f"{each.number} {each.digest}"
            for each in list_latest(session)
        },
        generations={row.name: row.generation for row in generations},
        rollouts={name: f"{number} {state}" for name, number, state in rollouts},
    )
