"""Objectives over time: how each promise stands, and the rules for Prometheus that it makes."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.datastructures import State

from controlplane.api.slo_observed import engine_view, with_engine_notes
from controlplane.api.slo_silenced import view_in_force, view_standings
from controlplane.api.slo_views import RulesView, StandingList
from controlplane.slo.client_reported import without_client_reported
from controlplane.slo.prometheus.alertmanager import (
    Delivery,
    left_out_of,
    render_alertmanager,
)
from controlplane.slo.prometheus.burning import Burning, burning_groups
from controlplane.slo.prometheus.contract_alerts import watched_groups
from controlplane.slo.prometheus.counting import counting_groups
from controlplane.slo.prometheus.engine_counting import engine_counting_groups
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import render
from controlplane.slo.prometheus.static_alerts import static_groups
from controlplane.slo.promised_now import promises_now
from controlplane.slo.reading import StandingReader
from controlplane.specs.contract import SLOContractSpec
from controlplane.store.deployments import DesiredDeployment, list_readable_deployments
from dataplane.clock import wall_clock

Url = Annotated[str | None, Query(max_length=1024, pattern="^https?://")]
AbsolutePath = Annotated[str | None, Query(max_length=1024, pattern="^/")]


class CommonRules(StrEnum):
    """Files that are no contract's."""

    COUNTING = "counting"
    STATIC = "static"
    ALERTMANAGER = "alertmanager"


router = APIRouter(prefix="/api/v1/slo", tags=["slo"])


@router.get("")
def get_standings(request: Request, deployment: str | None = None) -> StandingList:
    """How every objective stands: burn rates, budget, and which alerts fire, from the exact counts
    that this control plane keeps. Only of `deployment` where it is given."""
    return read_standing_list(request.app.state, wall_clock(), deployment)


@router.get("/rules/{name}")
def get_rules(name: str, request: Request, console_url: Url = None) -> RulesView:
    """Prometheus' rules of the contract called `name`, for every deployment under it, each made of
    the revision that is desired there. Alerts lead to `console_url`, or to where this was asked.
    """
    state = request.app.state
    under = [each for each in _deployments(state) if _contract_name(each) == name]
    if not under:
        raise HTTPException(404, _why_none(state, name))
    return _rules_of(state, name, under, _links(request, console_url))


@router.get("/common-rules/{what}")
def get_common_rules(
    what: CommonRules,
    request: Request,
    console_url: Url = None,
    credentials_file: AbsolutePath = None,
    watchdog_url_file: AbsolutePath = None,
) -> RulesView:
    """What is the same for all contracts: Prometheus' rules that count, which each of them needs;
    static alerts for what no objective covers; Alertmanager's configuration, which delivers to
    where this was asked, showing the key in `credentials_file`, and has an outside service's
    address in `watchdog_url_file`, both on Alertmanager's machine. Only static alerts take
    `console_url`, and only Alertmanager's configuration those files."""
    if console_url is not None and what is not CommonRules.STATIC:
        raise HTTPException(422, f"console_url: nothing in {what} leads to the console")
    if what is not CommonRules.ALERTMANAGER and (credentials_file or watchdog_url_file):
        raise HTTPException(422, "a file of Alertmanager's machine goes with alertmanager")
    left_out: list[str] = []
    if what is CommonRules.COUNTING:
        rules = render(counting_groups(), _HEADING)
    elif what is CommonRules.STATIC:
        rules = render(static_groups(_links(request, console_url)), _HEADING)
    else:
        delivery = Delivery(
            control_plane_url=str(request.base_url),
            credentials_file=credentials_file,
            watchdog_url_file=watchdog_url_file,
        )
        rules, left_out = render_alertmanager(delivery, _HEADING), left_out_of(delivery)
    return RulesView(contract=None, revisions=[], deployments=[], rules=rules, left_out=left_out)


def read_standing_list(state: State, now_unix_ns: int, deployment: str | None) -> StandingList:
    """Raises HTTPException where there is no such deployment."""
    found = _deployments(state)
    if deployment is not None:
        found = [each for each in found if each.name == deployment]
        if not found:
            raise HTTPException(404, f"there is no deployment {deployment[:128]}")
    promises = list(promises_now(found))
    reader: StandingReader = state.standings
    with state.request_db.reading() as session:
        standings = reader.read(session, promises, now_unix_ns // 10**9)
    views = view_standings(state, standings, now_unix_ns, deployment)
    return StandingList(
        as_of_unix_ns=now_unix_ns,
        standings=with_engine_notes(state, found, views),
        unpromised=[each.name for each in found if each.revisions.contract is None],
        silences=view_in_force(state, views, now_unix_ns),
    )


_HEADING = (
    "Made by Pilothouse: `pilothouse slo render` writes it anew, and what is changed here is lost.",
)


def _links(request: Request, console_url: str | None) -> Links:
    return Links(console_url=console_url or str(request.base_url))


def _rules_of(
    state: State, name: str, under: Sequence[DesiredDeployment], links: Links
) -> RulesView:
    made = [_rules_of_one(state, each, links) for each in under]
    revisions = sorted({each.revisions.contract.label for each in under if each.revisions.contract})
    heading = (*_HEADING, f"Of contract {', '.join(revisions)}.")
    return RulesView(
        contract=name,
        revisions=revisions,
        deployments=[each.name for each in under],
        rules=render([group for one in made for group in one.groups], heading),
        left_out=[sentence for one in made for sentence in one.left_out],
    )


def _rules_of_one(state: State, desired: DesiredDeployment, links: Links) -> Burning:
    view = engine_view(state, desired)
    if view is None:
        return _rules_by_gateways(desired, links)
    burning = burning_groups([each.promise for each in view.objectives], links)
    return Burning(
        groups=(*engine_counting_groups(view.objectives, links), *burning.groups),
        left_out=(*view.notes, *burning.left_out),
    )


def _rules_by_gateways(desired: DesiredDeployment, links: Links) -> Burning:
    contract = desired.revisions.contract
    assert contract is not None  # it is of the contract that was asked for
    promises = list(promises_now([desired]))
    kept, notes = without_client_reported(promises, contract.spec(SLOContractSpec))
    made = watched_groups(kept, links)
    return replace(made, left_out=(*notes, *made.left_out))


def _deployments(state: State) -> list[DesiredDeployment]:
    with state.config_db.reading() as session:
        return list_readable_deployments(session)[0]


def _contract_name(desired: DesiredDeployment) -> str | None:
    contract = desired.revisions.contract
    return None if contract is None else contract.label.rpartition("@")[0]


def _why_none(state: State, name: str) -> str:
    found = _deployments(state)
    of_deployment = next((_contract_name(each) for each in found if each.name == name), None)
    if of_deployment is not None:
        return f"{name[:128]} is a deployment: its contract is called {of_deployment}"
    in_force = sorted({contract for each in found if (contract := _contract_name(each))})
    known = f"those in force are {', '.join(in_force)}" if in_force else "none is in force"
    return f"no deployment is under a contract called {name[:128]}; {known}"
