"""Rollouts in the terminal."""

from collections.abc import Iterator, Sequence

from controlplane.api.quantities import age
from controlplane.api.rollout_views import (
    ArmView,
    ComparisonView,
    LookView,
    MoveView,
    RolloutDetail,
    RolloutLine,
    RolloutPlan,
    ShadowView,
    StandingView,
)
from controlplane.api.rollout_words import (
    burn_words,
    burning_words,
    estimate_words,
    gets_words,
    interval_words,
    kept_words,
    margin_words,
    promise_words,
    says_of,
    shadow_class_words,
    shadow_outcome_words,
    shadow_says,
    shadow_words,
    share_words,
    step_words,
)
from controlplane.cli.terminal import continued, indented, instant, table

NONE_THERE = "no rollout is under way"


def rollout_table(found: Sequence[RolloutLine], none: str = NONE_THERE) -> str:
    """One line for each."""
    if not found:
        return none
    rows = [("NUMBER", "DEPLOYMENT", "STATE", "STEP", "SHARE", "CHANGES", "BEGAN", "BY", "REASON")]
    rows += [
        (
            str(each.number),
            each.deployment,
            each.state,
            f"{each.step}/{each.num_steps}",
            gets_words(each),
            changes_words(each),
            instant(each.created_at_unix_ns),
            each.created_by,
            each.reason,
        )
        for each in found
    ]
    return table(rows)


def rollout_text(view: RolloutDetail) -> str:
    """One, whole."""
    return "\n".join(
        [
            *_head(view),
            "",
            "Steps",
            *_inside(_steps(view)),
            "",
            "Arms",
            *_inside(_arms(view)),
            "",
            *_look(view),
            "",
            "History",
            *_inside(table([("AT", "STATE", "STEP", "BY", "REASON"), *map(_move, view.moves)])),
        ]
    )


def _gets(line: RolloutLine) -> str:
    return "in shadow" if line.is_in_shadow else f"{share_words(line.share)} to the candidate"


def state_line(view: RolloutDetail) -> str:
    """Where it is, on one line."""
    it = view.rollout
    return (
        f"rollout {it.number} of {it.deployment}: {it.state}, step {it.step} of {it.num_steps}, "
        f"{_gets(it)}: {continued(it.reason, '  ')}"
    )


def move_line(number: int, move: MoveView) -> str:
    """One line of its history, as it is watched."""
    return (
        f"{instant(move.at_unix_ns)}  rollout {number}: {move.state}, step {move.step} "
        f"({share_words(move.share)}), by {move.actor}: {continued(move.reason, '  ')}"
    )


def plan_lines(plan: RolloutPlan) -> list[str]:
    """What a demand would do."""
    lines = [
        f"To {plan.asked} rollout {plan.number} of {plan.deployment} would take it from "
        f"{plan.state} at step {plan.step} to {plan.state_after} at step {plan.step_after}, and "
        f"the candidate from {share_words(plan.share)} to {share_words(plan.share_after)} of the "
        "traffic.",
    ]
    if plan.candidate_replicas_after is not None:
        lines.append(
            f"Replicas: stable {plan.stable_replicas} to {plan.stable_replicas_after}, candidate "
            f"{plan.candidate_replicas} to {plan.candidate_replicas_after}."
        )
    return [*lines, *plan.effects, "Nothing was done."]


def changes_words(line: RolloutLine) -> str:
    """`policy chat@12 → chat@13`."""
    return ", ".join(each.text for each in line.changes)


def _head(view: RolloutDetail) -> Iterator[str]:
    it, now = view.rollout, view.as_of_unix_ns
    yield state_line(view)
    yield f"  {changes_words(it)}"
    why = f": {continued(it.created_reason, '  ')}" if it.created_reason else ""
    yield f"  begun {instant(it.created_at_unix_ns)} by {it.created_by}{why}"
    if it.ended_at_unix_ns is not None:
        yield f"  over since {instant(it.ended_at_unix_ns)}"
    else:
        yield f"  here for {age((now - view.step_since_unix_ns) / 1e9)}"
    if view.freeze is not None:
        yield f"  frozen: {continued(view.freeze, '  ')}"
    if view.force is not None:
        yield f"  forced to one arm: {continued(view.force, '  ')}"
    if view.demands:
        yield f"  may be asked of it: {', '.join(view.demands)}"


def _steps(view: RolloutDetail) -> str:
    rows = [("STEP", "SHARE", "AT LEAST", "THEN", "PLACE")]
    rows += [
        (
            str(each.number),
            step_words(each),
            age(each.for_seconds),
            "a person" if each.pause else "by itself",
            each.place,
        )
        for each in view.steps
    ]
    return table(rows)


def _arms(view: RolloutDetail) -> str:
    heads = ("ARM", "SHARE", "MODEL", "ENGINE CONFIG", "POLICY", "REPLICAS READY")
    return table([heads, _arm("stable", view.stable), _arm("candidate", view.candidate)])


def _arm(name: str, arm: ArmView) -> tuple[str, ...]:
    replicas = "shared" if arm.num_replicas is None else f"{arm.num_ready} of {arm.num_replicas}"
    return name, share_words(arm.share), arm.model, arm.engine_config, arm.policy, replicas


def _look(view: RolloutDetail) -> Iterator[str]:
    """The last look, or of one that is over what it was decided by."""
    look = view.look
    if look is not None:
        yield f"Analysis, {age(look.age_seconds)} ago: {look.verdict}: {look.reason}"
        yield from _measured(look)
        return
    decided = next((each for each in reversed(view.moves) if _has_measured(each)), None)
    if decided is None:
        yield "Analysis: nothing was looked at yet"
        return
    yield f"Analysis when it was {decided.state}, {instant(decided.at_unix_ns)}"
    yield from _measured(decided)


def _has_measured(move: MoveView) -> bool:
    return bool(move.comparisons or move.standings) or move.shadow is not None


def _measured(of: LookView | MoveView) -> Iterator[str]:
    if of.shadow is not None:
        yield from _in_shadow(of.shadow)
    if of.comparisons:
        yield from _inside(_comparisons(of.comparisons))
    yield from _against_contract(of.standings or [])


def _in_shadow(shadow: ShadowView) -> Iterator[str]:
    yield f"In shadow the candidate's policy decides {shadow_words(shadow)}"
    rows = [("CLASS", "ENFORCED → IN SHADOW", "SAYS", "REQUESTS", "ONE OF THEM")]
    rows += [
        (
            shadow_class_words(each),
            shadow_outcome_words(each),
            shadow_says(each),
            f"{each.num:,}",
            each.example,
        )
        for each in shadow.groups
    ]
    yield from _inside(table(rows))
    if shadow.tenants:
        told = ", ".join(f"{each.name} ({each.num_differing:,})" for each in shadow.tenants)
        yield f"  otherwise for tenants {told}"


def _comparisons(comparisons: Sequence[ComparisonView]) -> str:
    heads = ("MEASURE", "CANDIDATE LESS STABLE", "IS WITHIN", "NO HARM", "SAYS")
    rows = [(*heads, "STABLE", "CANDIDATE", "UNMATCHED")]
    rows += [
        (
            each.measure,
            estimate_words(each),
            interval_words(each),
            margin_words(each),
            says_of(each),
            f"{each.num_stable:,}",
            f"{each.num_candidate:,}",
            f"{each.num_unmatched:,}",
        )
        for each in comparisons
    ]
    return table(rows)


def _against_contract(standings: Sequence[StandingView]) -> Iterator[str]:
    if not standings:
        return
    first = standings[0]
    yield ""
    yield (
        f"Against contract {first.contract_revision}: burn rates, of which a candidate's must not "
        f"surely reach {first.max_burn_rate:g}"
    )
    rows = [("PROMISE", "STABLE", "BURNS AT", "CANDIDATE", "BURNS AT", "SAYS")]
    rows += [
        (
            promise_words(each),
            kept_words(each.stable),
            burn_words(each.stable),
            kept_words(each.candidate),
            burn_words(each.candidate),
            burning_words(each),
        )
        for each in standings
    ]
    yield from _inside(table(rows))


def _move(move: MoveView) -> tuple[str, ...]:
    return (
        instant(move.at_unix_ns),
        move.state,
        f"{move.step} ({share_words(move.share)})",
        move.actor,
        move.reason,
    )


def _inside(text: str) -> list[str]:
    return indented(text).splitlines()
