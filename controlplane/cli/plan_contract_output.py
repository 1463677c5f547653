"""What a plan says of a changed contract, in the terminal."""

from collections.abc import Iterator

from controlplane.api.rollout_words import bound_words
from controlplane.rollouts.change_plan.contract_replay import (
    ContractImpact,
    PromiseCount,
    PromiseReplay,
)
from controlplane.slo.burn_rate import percent


def contract_lines(impact: ContractImpact) -> Iterator[str]:
    """Of one deployment."""
    both = f"{impact.before or 'none'} -> {impact.after or 'none'}"
    if not impact.num_recorded:
        yield f"  contract {both}: no traffic was recorded in the last hour to judge by it"
        yield from (f"    {_promise(each)}" for each in impact.promises)
        return
    newest = (
        ""
        if impact.num_replayed == impact.num_recorded
        else f", the newest {impact.num_replayed:,} of them"
    )
    yield f"  contract {both}: {impact.num_recorded:,} requests of the last hour{newest}, by both"
    for each in impact.promises:
        yield f"    {_promise(each)}"
        yield from (f"      {line}" for line in _effects(each))
    for tenant in impact.tenants:
        yield (
            f"    tenant {tenant.tenant}: {tenant.num_bad_before:,} requests out of contract -> "
            f"{tenant.num_bad_after:,}"
        )
    if impact.untold_grades:
        yield f"    alerts of longer windows are not known: {', '.join(impact.untold_grades)}"


def _promise(each: PromiseReplay) -> str:
    name = f"{each.request_class} {each.objective}"
    if each.before is None:
        return f"+ {name}: {_said(each.after)}"
    if each.after is None:
        return f"- {name}: {_said(each.before)}"
    before, after = _said(each.before), _said(each.after)
    return f"{name}: {before}" if before == after else f"~ {name}: {before} -> {after}"


def _said(count: PromiseCount | None) -> str:
    if count is None:
        return "none"
    bound = "" if count.at_most_seconds is None else f" within {bound_words(count.at_most_seconds)}"
    return f"{percent(count.target)}{bound}"


def _effects(each: PromiseReplay) -> Iterator[str]:
    before, after = each.before, each.after
    told = [_kept(count) for count in (before, after) if count is not None]
    yield " -> ".join(dict.fromkeys(told))
    if each.num_newly_bad or each.num_newly_good:
        yield f"{each.num_newly_bad:,} kept it and miss it now, {each.num_newly_good:,} keep it now"
    fired = [", ".join(count.fired) or "none" for count in (before, after) if count is not None]
    if len(set(fired)) > 1 or fired[0] != "none":
        yield f"alerts that would have fired: {' -> '.join(dict.fromkeys(fired))}"


def _kept(count: PromiseCount) -> str:
    unknown = f", {count.num_unknown:,} unknown" if count.num_unknown else ""
    if count.burn_rate is None:
        return f"it applied to none{unknown}"
    share = 100 * (1 - count.num_bad / count.num)
    return (
        f"{count.num_bad:,} of {count.num:,} missed it ({share:.4g} % kept, burn rate "
        f"{count.burn_rate:.3g}){unknown}"
    )
