"""What is wrong right now, as far as desired and observed state can tell. Pure.

`page` is for what hurts callers now, `ticket` for what can wait until morning, `no_data` for
what cannot be judged because nobody reports it: never green by silence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from controlplane.slo.burn_rate import percent

ENOUGH_JUDGED = 20
"""Fewer than that say nothing about a share."""
HALF_HOUR_SECONDS = 1800.0
About = Literal["replicas", "incidents", "requests", "rejected", "failed", "in_contract"]
"""What a trouble of a deployment was seen in."""
_ORDER = ("page", "ticket", "no_data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that is wrong."""

    severity: str
    """page, ticket or no_data."""
    what: str
    remedy: str
    deployment: str | None = None
    about: About | None = None
    """None: in none of them."""
    window_seconds: float | None = None
    """That it was counted over; None: it is of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    """What is known of one deployment."""

    name: str
    num_desired: int
    num_ready: int
    failed_because: str | None
    """How its last replica ended, where none became ready since."""
    starting_stage: str | None
    lost_because: str | None = None
    """Why one that is attached is unreachable now; None: none is."""
    lost_at_unix_ns: int | None = None
    """Since when."""
    is_observed_only: bool = False
    """Somebody else's way in goes to it: whether its callers are answered is not seen here."""
    kept_share: float | None = None
    """Of the judged requests of the window; None: too few to say."""
    promised_share: float | None = None
    num_asked: int = 0
    """Well-formed requests of the window."""
    num_judged: int = 0
    num_good: int = 0
    """Of the judged ones, those in contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFacts:
    """What is known of one gateway."""

    name: str
    age_seconds: float
    is_current: bool
    snapshot_error: str | None
    num_records_lost: int
    refused_because: str | None = None
    """Why its calls are refused now; None: they are not, or it does not call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideFacts:
    """One break-glass override that is in force."""

    override_id: str
    deployment: str | None
    """None: it is of every one."""
    effect: str
    created_by: str
    reason: str
    until_unix_ns: int
    lacks_replicas: bool = False
    """It sends new requests to replicas none of which is ready."""


def find_trouble(
    deployments: list[DeploymentFacts],
    gateways: list[GatewayFacts],
    request_data_refusal: str | None = None,
    unreadable: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
    overrides: Sequence[OverrideFacts] = (),
    others: Sequence[Trouble] = (),
) -> list[Trouble]:
    """Every trouble, the worst first.

    `request_data_refusal`: why records are not taken now. `unreadable`: deployments whose stored
    documents cannot be read, with the reason. `refused`: gateways that never reported and are
    refused, with the reason. `overrides`: those in force. `others`: what else is known.
    """
    found = [trouble for each in deployments for trouble in _of_deployment(each)]
    found += [trouble for each in deployments for trouble in _of_contract(each)]
    found += [trouble for each in gateways for trouble in _of_gateway(each)]
    found += [_of_unreadable(name, why) for name, why in (unreadable or {}).items()]
    found += [_of_refused(name, why) for name, why in (refused or {}).items()]
    found += [_of_override(each) for each in overrides]
    found += others
    if deployments and not gateways and not refused:
        found.append(_NO_GATEWAY)
    if request_data_refusal is not None:
        found.append(
            Trouble(
                severity="ticket",
                what=f"request data is not taken: {request_data_refusal}",
                remedy="Follow the runbook request-database-full.",
            )
        )
    return sorted(found, key=lambda trouble: _ORDER.index(trouble.severity))


def _of_deployment(facts: DeploymentFacts) -> list[Trouble]:
    if facts.num_ready >= facts.num_desired:
        return []
    if facts.num_ready == 0 and facts.is_observed_only and facts.lost_because is not None:
        what = f"{facts.name}, which is observed, is lost: 0 of {facts.num_desired} replicas ready"
    elif facts.num_ready == 0:
        what = f"{facts.name} cannot answer: 0 of {facts.num_desired} replicas ready"
    else:
        what = f"{facts.name}: {facts.num_ready} of {facts.num_desired} replicas ready"
    return [
        Trouble(
            severity=_severity_of(facts),
            what=f"{what}; {_why_too_few(facts)}",
            remedy=_remedy_for(facts),
            deployment=facts.name,
            about="replicas",
        )
    ]


def _severity_of(facts: DeploymentFacts) -> str:
    """A start that somebody asked for may take its time. One that follows a failure keeps
    callers waiting who were served before."""
    was_served = facts.failed_because is not None or facts.lost_because is not None
    is_asked_for = facts.starting_stage is not None and not was_served
    return "ticket" if facts.num_ready > 0 or is_asked_for else "page"


def _why_too_few(facts: DeploymentFacts) -> str:
    parts = []
    if facts.failed_because is not None:
        parts.append(f"the last one failed: {facts.failed_because}")
    if facts.lost_because is not None:
        since = _since(facts.lost_at_unix_ns)
        parts.append(f"one that was ready is unreachable{since}: {facts.lost_because}")
    if facts.starting_stage is not None:
        parts.append(f"one is starting (stage {facts.starting_stage})")
    return "; ".join(parts) or "none was seen yet"


def _since(at_unix_ns: int | None) -> str:
    if at_unix_ns is None:
        return ""
    return f" since {datetime.fromtimestamp(at_unix_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _remedy_for(facts: DeploymentFacts) -> str:
    look = f"`pilothouse describe deployment {facts.name}`"
    if facts.lost_because is not None:
        return (
            f"Run {look}; see on its machine whether its process runs and what its log says last. "
            "One that takes connections and says nothing: follow the runbook engine-hung; one "
            "whose port refuses them: engine-gone."
        )
    if facts.starting_stage is None:
        return f"Run {look}, and read the replica's log."
    if facts.failed_because is None:
        return "Wait for the start to end."
    return f"See with {look} whether the start ends well, and read the log of the one that failed."


def _of_unreadable(deployment: str, why: str) -> Trouble:
    return Trouble(
        severity="ticket",
        what=f"{deployment} is held: {why}. What runs of it goes on",
        remedy="Apply that document again, or run the version that stored it.",
        deployment=deployment,
    )


def _of_contract(facts: DeploymentFacts) -> list[Trouble]:
    kept, promised = facts.kept_share, facts.promised_share
    if promised is None:
        return []
    if kept is None or kept >= promised:
        return _of_doubt(facts, promised)
    return [
        Trouble(
            severity="ticket",
            what=f"{facts.name} kept its contract for {kept:.1%} of the requests of the last "
            f"half hour, {percent(promised)} are promised",
            remedy="Look at the requests that missed it: their waterfalls say in which phase.",
            deployment=facts.name,
            about="in_contract",
            window_seconds=HALF_HOUR_SECONDS,
        )
    ]


def _of_doubt(facts: DeploymentFacts, promised: float) -> list[Trouble]:
    """What looks bad and may not be: too few were judged, or most were not."""
    judged, good, asked = facts.num_judged, facts.num_good, facts.num_asked
    is_short = judged > 0 and good < promised * judged
    is_sparse = judged > 0 and 2 * judged < asked and good < promised * asked
    if not is_short and not is_sparse:
        return []
    doubt = f"{judged} judged: too few to tell"
    if judged >= ENOUGH_JUDGED:
        doubt = f"{judged} of {asked} judged: too few of them to tell"
    return [
        Trouble(
            severity="no_data",
            what=f"{facts.name} is known to have kept its contract for {good} of {asked} requests "
            f"of the last half hour, {percent(promised)} are promised; {doubt}",
            remedy="Look at the requests that missed it, and wait for more of them.",
            deployment=facts.name,
            about="in_contract",
            window_seconds=HALF_HOUR_SECONDS,
        )
    ]


def _of_gateway(facts: GatewayFacts) -> list[Trouble]:
    if not facts.is_current and facts.refused_because is not None:
        return [_of_refused(facts.name, facts.refused_because)]
    if not facts.is_current:
        return [
            Trouble(
                severity="no_data",
                what=f"{facts.name} has not reported for {facts.age_seconds:.0f} s; "
                "what it serves now is unknown",
                remedy="See whether its process runs, and its log.",
            )
        ]
    found = []
    if facts.snapshot_error is not None:
        found.append(
            Trouble(
                severity="ticket",
                what=f"{facts.name} refuses the newest config and enforces the one before: "
                f"{facts.snapshot_error}",
                remedy="Mend the document it names and apply it again.",
            )
        )
    if facts.num_records_lost:
        found.append(
            Trouble(
                severity="ticket",
                what=f"{facts.name} dropped {facts.num_records_lost} records: "
                "counts since then are too low",
                remedy="Free disk space for its spool, and bring the control plane back sooner.",
            )
        )
    return found


def _of_refused(gateway: str, why: str) -> Trouble:
    return Trouble(
        severity="ticket",
        what=f"{gateway} runs and is refused: {why}. It serves under the config it has, follows "
        "no change, and what it serves now is unknown",
        remedy=f"Make a key called {gateway} with the role gateway, and start it again with that: "
        "see the runbook gateway-refused.",
    )


def _of_override(facts: OverrideFacts) -> Trouble:
    """A person decided it, and somebody must know until it ends."""
    lacking = "; none of them is ready" if facts.lacks_replicas else ""
    until = datetime.fromtimestamp(facts.until_unix_ns // 10**9, UTC)
    return Trouble(
        severity="page" if facts.lacks_replicas else "ticket",
        what=f"{facts.deployment or 'every deployment'}: {facts.effect}{lacking}, until "
        f"{until:%Y-%m-%d %H:%M:%S} UTC, by {facts.created_by}: {facts.reason}",
        remedy=f"When it is not needed any more: `pilothouse override end {facts.override_id}`; "
        f"see the runbook break-glass.",
        deployment=facts.deployment,
    )


_NO_GATEWAY = Trouble(
    severity="no_data",
    what="No gateway ever reported: whether callers are answered is unknown",
    remedy="Start one: `pilothouse serve`, or `python -m dataplane.gateway`.",
)
