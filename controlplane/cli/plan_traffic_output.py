"""What a plan says of recorded traffic, in the terminal."""

from collections.abc import Iterator

from controlplane.rollouts.change_plan.reclassed import RuleReach, RuleVerdict
from controlplane.rollouts.change_plan.traffic import ClassMove, LimitMove, TrafficImpact

_MOST_NAMED = 10


def traffic_lines(traffic: TrafficImpact) -> Iterator[str]:
    """Of one deployment."""
    if not traffic.num_recorded:
        yield "  traffic: none was recorded in the last hour, so nothing is known of its effect"
    else:
        newest = (
            ""
            if traffic.num_replayed == traffic.num_recorded
            else f", the newest {traffic.num_replayed} replayed"
        )
        yield f"  traffic: {traffic.num_recorded} requests of the last hour{newest}"
        yield from _class_lines(traffic)
        yield from (f"    {_limit(each)}" for each in traffic.limit_moves[:_MOST_NAMED])
        if not traffic.class_moves and not traffic.limit_moves:
            yield "    none that can be told would be admitted differently"
    yield from (f"  rule: {_rule(each)}" for each in traffic.rules)
    if traffic.not_replayed:
        yield f"  unknown from recorded requests: {', '.join(traffic.not_replayed)}"


def _class_lines(traffic: TrafficImpact) -> Iterator[str]:
    for move in traffic.class_moves[:_MOST_NAMED]:
        yield f"    {_move(move)}"
    if len(traffic.class_moves) > _MOST_NAMED:
        yield f"    and {len(traffic.class_moves) - _MOST_NAMED} more pairs of tenant and class"
    if traffic.num_unclear:
        yield f"    the class of {traffic.num_unclear} rests on what was not recorded"


def _move(move: ClassMove) -> str:
    to = f"into class {move.after}" if move.after else "into no class: they would be refused"
    return f"{move.num_requests} of tenant {move.tenant} move from class {move.before} {to}"


def _limit(move: LimitMove) -> str:
    return f"{move.limit} of {move.of}: met by {move.before} requests, and then by {move.after}"


def _rule(reach: RuleReach) -> str:
    match = "takes what no rule before it takes" if reach.match is None else reach.match
    name = f"class {reach.request_class} ({match})"
    match reach.verdict:
        case RuleVerdict.FIRES:
            return f"{name} would have taken {reach.num_taken}"
        case RuleVerdict.SHADOWED:
            return (
                f"{name} could never have fired: it holds for {reach.num_holding}, and rules "
                f"before it take them all"
            )
        case RuleVerdict.NEVER:
            return f"{name} could never have fired: it holds for none of them"
        case RuleVerdict.UNKNOWN:
            reads = f": it reads {', '.join(reach.unrecorded)}" if reach.unrecorded else ""
            return f"{name}: unknown whether it could have fired{reads}"
