"""Rollouts as API, console and terminal show them: plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmChange:
    """One document in which the arms differ."""

    role: str
    """model, engine config or policy."""
    kind: str
    name: str
    from_number: int
    to_number: int
    """Revisions of `name`; where the candidate's document has another name, of `to_name`."""
    to_name: str
    text: str
    """`policy chat@12 → chat@13`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLine:
    """One of a list."""

    number: int
    deployment: str
    state: str
    """waiting, running, paused, promoted or aborted."""
    reason: str
    """Why it is there."""
    step: int
    """The step that it is at, from 1; of one that is over, the last that it came to."""
    num_steps: int
    share: float
    """What the candidate gets of the traffic now, 0 to 1."""
    is_in_shadow: bool
    """The candidate's policy decides on all requests now, and enforces nothing."""
    changes: list[ArmChange]
    created_by: str
    created_reason: str
    created_at_unix_ns: int
    ended_at_unix_ns: int | None
    """None: it is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutList:
    """The newest first."""

    as_of_unix_ns: int
    rollouts: list[RolloutLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One share of the traffic."""

    number: int
    """From 1."""
    share: float
    for_seconds: float
    """How long it is looked at, at least."""
    pause: bool
    """A person has to let it go on."""
    is_shadow: bool
    """The candidate's policy decides on every request, and enforces nothing."""
    different_at_most: float | None
    """In shadow: the share of requests that may be decided otherwise; None: any."""
    place: str
    """done, current or ahead; of an aborted rollout `current` is where it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmView:
    """What one arm is made of, and who serves it."""

    model: str
    """`name@number`, as the next two."""
    engine_config: str
    policy: str
    share: float
    """Of the traffic, now."""
    num_replicas: int | None
    """That it should have now; None: it has none of its own, or its deployment is gone."""
    num_ready: int | None
    """None as above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalView:
    """A best guess, and where the true value is with the confidence of the rollout's analysis."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """The arms by one measure."""

    measure: str
    says: str
    """What it is, in words."""
    more_is_worse: bool
    is_share: bool
    margin: float
    """How much worse is no harm, on the scale of `apart`."""
    num_stable: int
    """Requests that have a like one in the other arm."""
    num_candidate: int
    num_unmatched: int
    """Of the candidate, without a like one."""
    applies: bool
    """False: no stable request answers this question, so that it decides nothing."""
    is_good: bool | None
    """Not worse by more than the margin (true), worse (false), or not known yet."""
    apart: IntervalView | None
    """Candidate less stable: of shares their difference, of anything else by what part the
    candidate's is larger. None: too few to tell anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStandingView:
    """One arm before one promise."""

    num: int
    """Requests that the promise applied to."""
    num_bad: int
    burn: IntervalView | None
    """Its burn rate: the share of bad ones divided by the share that the contract allows. None:
    there were none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingView:
    """Both arms before one promise of the contract."""

    contract_revision: str
    """`name@number`: only requests that were judged by it are counted."""
    request_class: str
    objective: str
    """A signal, or together."""
    at_most_seconds: float | None
    """None of what has no threshold."""
    target: float
    """Share of requests, 0 to 1."""
    max_burn_rate: float
    """A candidate that surely burns faster, and surely faster than the stable arm, is rejected."""
    burning: str
    """Whether the candidate burns too fast: no, too_fast, with_stable (it does, and is not surely
    worse than the stable arm), misses (surely above 1, which the stable arm is not) or unknown
    (nothing of it was judged)."""
    stable: ArmStandingView
    candidate: ArmStandingView


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowGroupView:
    """Requests that both policies treated in the same two ways."""

    request_class: str
    """As it is enforced; empty: none took them."""
    enforced: str
    """admitted, degraded or rejected."""
    outcome: str
    """The same of the policy that looks on, or unknown."""
    shadow_class: str
    """Its class of them; empty as above."""
    kind: str
    """Why it would refuse them, as the error's code says it; empty where it would not."""
    differs: bool | None
    """None: nobody knows."""
    num: int
    example: str
    """Id of one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowTenantView:
    """A tenant whose requests would be decided otherwise on."""

    name: str
    num_differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowView:
    """What the candidate's policy came to while it only looked on. Who waits was queued by the
    policy that is enforced: how long its own queue would be is not known."""

    num_compared: int
    """Requests of which both decisions are known."""
    num_differing: int
    num_unknown: int
    """Those of which nobody knows what it would have come to."""
    differing: IntervalView | None
    """The share that is decided otherwise, 0 to 1; None: nothing was compared."""
    groups: list[ShadowGroupView]
    """Those that differ first, the largest first."""
    tenants: list[ShadowTenantView]
    """At most ten, those with the most that differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookView:
    """What the requests of the step said when they were looked at last."""

    at_unix_ns: int
    age_seconds: float
    verdict: str
    """promote, reject or undecided."""
    reason: str
    deciding: str | None
    """The measure or promise that turned it; None: no single one."""
    comparisons: list[ComparisonView]
    standings: list[StandingView]
    """One for each promise of the contract that is in force."""
    shadow: ShadowView | None
    """Of a step in shadow, where nothing else is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveView:
    """One line of the history."""

    at_unix_ns: int
    state: str
    step: int
    """From 1."""
    share: float
    """The candidate's, that this step has."""
    actor: str
    """`pilothouse` where nobody asked for it."""
    reason: str
    comparisons: list[ComparisonView] | None
    """What was measured when it was decided; None: nothing had been."""
    standings: list[StandingView] | None
    """None: nothing had been, or it was decided before arms were held against the contract."""
    shadow: ShadowView | None
    """What a policy that only looked on had come to; None: none did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDetail:
    """One, whole."""

    as_of_unix_ns: int
    rollout: RolloutLine
    step_since_unix_ns: int
    """When the step began; of one that waits, when the rollout did."""
    steps: list[StepView]
    stable: ArmView
    candidate: ArmView
    step_share: float
    """Of the traffic, what the step gives to the candidate; it gets less where its replicas are a
    smaller part than that."""
    has_own_replicas: bool
    """The candidate is another model or engine config, and not another policy alone."""
    timeout_seconds: float
    """Of a step."""
    on_timeout: str
    """pause or abort."""
    sticky_header: str
    min_requests: int
    """Of each arm, before anything is said."""
    confidence: float
    freeze: str | None
    """Why nothing goes forward now; None: it may."""
    force: str | None
    """The arm that an override sends all requests to, who made it and why; None: neither."""
    demands: list[str]
    """What may be asked of it now: promote, pause, resume, abort, retry."""
    look: LookView | None
    """None: nothing was looked at yet, or it is over."""
    moves: list[MoveView]
    """Oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    """What a demand would do, before it is made."""

    number: int
    asked: str
    deployment: str
    step: int
    """Where it is now, from 1: what a demand may name, so that it is refused once this is over."""
    state: str
    state_after: str
    step_after: int
    share: float
    share_after: float
    stable_replicas: int | None
    """None, here and below: no replica starts or ends for it."""
    stable_replicas_after: int | None
    candidate_replicas: int | None
    candidate_replicas_after: int | None
    effects: list[str]
    """What happens, as sentences."""
    num_offered: int
    """Requests of the deployment in the last hour."""
    as_of_unix_ns: int
