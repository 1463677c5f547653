"""Which class each recorded request would be in by another policy, and which rules could fire.

What was decided then tells more than its row: a request that the policy of before put into its
third class did not match the first two rules, whatever they read. So rules that both policies have
are known by what became of the request, also where they read headers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.rollouts.change_plan.recorded import RecordedRequest
from controlplane.rollouts.change_plan.rule_truth import RuleTruth, unrecorded_reads
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, TenantPolicy

NO_CLASS = ""
"""No rule takes it: it would be refused."""


class RuleVerdict(StrEnum):
    """Whether a rule could ever have fired in that time."""

    FIRES = "fires"
    """It takes requests."""
    SHADOWED = "shadowed"
    """It holds for some, and rules before it take them all."""
    NEVER = "never"
    """It holds for none."""
    UNKNOWN = "unknown"
    """It rests on what was not recorded, or there was no traffic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReach:
    """One rule that is new, or reads otherwise, and what it would have done."""

    request_class: str
    match: str | None
    """None: it takes what no rule before it takes."""
    verdict: RuleVerdict
    num_taken: int
    num_holding: int
    """Those for which it holds, taken or not."""
    num_unknown: int
    unrecorded: tuple[str, ...]
    """What it reads that was not recorded."""


@dataclass(slots=True)
class Reclassed:
    """The classes of recorded requests by both policies, in the order of the requests."""

    classes: list[str | None] = field(default_factory=list)
    """By the policy that would be enforced; NO_CLASS: none. None: nobody can tell."""
    taken: Counter[str] = field(default_factory=Counter)
    holding: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """Both policies of a deployment, with the tenants as each would meet them."""

    deployment: str
    before: AdmissionPolicyTerms
    after: AdmissionPolicyTerms
    tenants_before: Mapping[str, TenantPolicy]
    tenants_after: Mapping[str, TenantPolicy]


def reclass(change: PolicyChange, requests: Sequence[RecordedRequest]) -> Reclassed:
    """Ask each rule of the new policy about each request."""
    result = Reclassed()
    rules = {
        each.name: RuleTruth(each.match, change.deployment)
        for each in change.after.classes
        if each.match is not None
    }
    for request in requests:
        tenant = _tenant(change.tenants_after, request.tenant)
        known = _known_truths(change, request)
        truths = [_truth(each, known, rules, tenant, request) for each in change.after.classes]
        found = _first(change.after.classes, truths)
        result.classes.append(found)
        for each, truth in zip(change.after.classes, truths, strict=True):
            result.holding[each.name] += truth is True
            result.unknown[each.name] += truth is None
        if found:
            result.taken[found] += 1
    return result


def rule_reaches(change: PolicyChange, found: Reclassed) -> tuple[RuleReach, ...]:
    """Of rules that are new or read otherwise than that of their class did."""
    before = {each.name: each.match for each in change.before.classes}
    return tuple(
        _reach(each, found)
        for each in change.after.classes
        if each.name not in before or before[each.name] != each.match
    )


def _reach(rule: ClassPolicy, found: Reclassed) -> RuleReach:
    taken, holding = found.taken[rule.name], found.holding[rule.name]
    unknown, num_requests = found.unknown[rule.name], len(found.classes)
    num_unclear = sum(each is None for each in found.classes)
    if taken:
        verdict = RuleVerdict.FIRES
    elif not num_requests or unknown or (holding and num_unclear):
        verdict = RuleVerdict.UNKNOWN
    else:
        verdict = RuleVerdict.SHADOWED if holding else RuleVerdict.NEVER
    return RuleReach(
        request_class=rule.name,
        match=rule.match,
        verdict=verdict,
        num_taken=taken,
        num_holding=holding,
        num_unknown=unknown,
        unrecorded=() if rule.match is None else unrecorded_reads(rule.match),
    )


def _tenant(tenants: Mapping[str, TenantPolicy], name: str) -> TenantPolicy:
    return tenants.get(name) or TenantPolicy(name=name)


def _known_truths(change: PolicyChange, request: RecordedRequest) -> dict[str, bool]:
    """Rules by their text, as far as what was decided tells; nothing where another revision
    decided it, or its tenant would be met otherwise."""
    same_tenant = _tenant(change.tenants_before, request.tenant) == _tenant(
        change.tenants_after, request.tenant
    )
    if request.policy_revision != change.before.revision or not same_tenant:
        return {}
    known: dict[str, bool] = {}
    for each in change.before.classes:
        if each.match is not None:
            known[each.match] = each.name == request.request_class
        if each.name == request.request_class:
            return known
    return {}  # it is of a class that this policy has not


def _truth(
    rule: ClassPolicy,
    known: Mapping[str, bool],
    rules: Mapping[str, RuleTruth],
    tenant: TenantPolicy,
    request: RecordedRequest,
) -> bool | None:
    if rule.match is None:
        return True
    if rule.match in known:
        return known[rule.match]
    return rules[rule.name].holds(tenant, request)


def _first(classes: Sequence[ClassPolicy], truths: Sequence[bool | None]) -> str | None:
    for each, truth in zip(classes, truths, strict=True):
        if truth is None:
            return None
        if truth:
            return each.name
    return NO_CLASS
