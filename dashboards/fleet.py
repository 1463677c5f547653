"""Fleet and SLO: does anybody not get what was promised, and where?"""

from controlplane.slo.prometheus.alerts_of_processes import CONTROL_PLANE_JOB
from controlplane.slo.prometheus.counting import sum_name
from dashboards.frame import DEPLOYMENT_SERIES, Plan, Variable
from dashboards.latency_panels import HISTOGRAMS
from dashboards.panel import Kind, Panel, Row, Unit
from dashboards.query import (
    OF_DEPLOYMENT,
    SCOPE,
    Query,
    or_zero,
    per_second,
    quantile,
    series,
    total,
)
from dataplane import names
from dataplane.contract_terms import ObjectiveSignal
from dataplane.latency import Boundary

_DEPLOYMENT, _CLASS = names.LABEL_DEPLOYMENT, names.LABEL_REQUEST_CLASS
_PROMISE = f"{{{{{_DEPLOYMENT}}}}} {{{{{_CLASS}}}}} {{{{{names.LABEL_OBJECTIVE}}}}}"
_BY_PROMISE = f"{_DEPLOYMENT}, {_CLASS}, {names.LABEL_OBJECTIVE}"
_FIRING = series("ALERTS", 'alertstate="firing"', f'{names.LABEL_SEVERITY}=~"page|ticket"')


def fleet() -> Plan:
    """All deployments on one page."""
    return Plan(
        uid="pilothouse-fleet",
        title="Pilothouse / Fleet and SLO",
        says="Which promises are kept, how fast error budgets go, and what each deployment serves.",
        variables=fleet_variables(),
        rows=[_alarm(), _promises(), _served(), _latency(), _running()],
    )


def fleet_variables() -> tuple[Variable, ...]:
    """Any number of deployments and classes."""
    judged = names.GATEWAY_OBJECTIVE_JUDGED_TOTAL
    ended = f'{{__name__=~"{names.GATEWAY_ENDED_TOTAL}|{judged}", {OF_DEPLOYMENT}}}'
    return (
        Variable(
            name="deployment",
            label="Deployment",
            query=f"label_values({DEPLOYMENT_SERIES}, {_DEPLOYMENT})",
            is_many=True,
        ),
        Variable(
            name="class", label="Class", query=f"label_values({ended}, {_CLASS})", is_many=True
        ),
    )


def _alarm() -> Row:
    return Row(
        title="Who is called",
        height=6,
        panels=[_firing(), _incidents(), _contracts()],
    )


def _firing() -> Panel:
    return Panel(
        title="Alerts that fire",
        says="Pages and tickets. Where budgets burn, the grade says how fast.",
        kind=Kind.TABLE,
        width=12,
        queries=[Query(expr=_FIRING, legend="")],
        runbook="budget-burn",
    )


def _incidents() -> Panel:
    return Panel(
        title="Open incidents",
        says="Troubles that are not over, from findings and alerts: the console tells why.",
        kind=Kind.FIGURE,
        width=4,
        queries=[
            Query(
                expr=or_zero(total(names.CONTROLPLANE_INCIDENTS_OPEN), CONTROL_PLANE_JOB),
                legend="open",
            )
        ],
    )


def _contracts() -> Panel:
    return Panel(
        title="Contracts in force",
        says="By which revision gateways judge. Two of one deployment: some follow late.",
        kind=Kind.TABLE,
        width=8,
        queries=[
            Query(
                expr=f"count by ({_DEPLOYMENT}, {names.LABEL_CONTRACT_REVISION}) "
                f"({series(names.GATEWAY_CONTRACT, OF_DEPLOYMENT)})",
                legend="",
            )
        ],
        runbook="snapshot-not-followed",
    )


def _promises() -> Row:
    return Row(
        title="What is promised",
        panels=[_budget(), _burn(), _kept()],
    )


def _budget() -> Panel:
    return Panel(
        title="Error budget left",
        says="Of the whole period of each objective: 0 is spent, below it is overspent.",
        unit=Unit.SHARE,
        is_signed=True,
        queries=[Query(expr=series(names.SLO_BUDGET_REMAINING, *SCOPE), legend=_PROMISE)],
        runbook="budget-burn",
    )


def _burn() -> Panel:
    return Panel(
        title="Burn rate of the last hour",
        says="Times the pace at which a budget lasts its period: above 1, the line, it "
        "is overspent in the end. The higher, the sooner somebody is called.",
        bounds=(1.0,),
        queries=[Query(expr=series(names.SLO_BURN_RATE.format("1h"), *SCOPE), legend=_PROMISE)],
        runbook="budget-burn",
    )


def _kept() -> Panel:
    fives = [series(sum_name(counted, 300), *SCOPE) for counted in ("good", "judged")]
    target = f"max by ({_BY_PROMISE}, {names.LABEL_CONTRACT_REVISION})"
    return Panel(
        title="Share that kept each objective, last five minutes",
        says="Share of judged requests that kept each objective. Dashed: what is promised, "
        "and by which revision.",
        unit=Unit.SHARE,
        is_share_of_one=True,
        queries=[
            Query(expr=f"{fives[0]} / ({fives[1]} > 0)", legend=_PROMISE),
            Query(
                expr=f"{target} ({series(names.SLO_TARGET, *SCOPE)})",
                legend=f"{_PROMISE} promised, {{{{{names.LABEL_CONTRACT_REVISION}}}}}",
                is_promise=True,
            ),
        ],
    )


def _served() -> Row:
    return Row(title="What is served", panels=[_goodput(), _ends(), _tokens()])


def _goodput() -> Panel:
    by = (_DEPLOYMENT,)
    named = f"{{{{{_DEPLOYMENT}}}}}"
    return Panel(
        title="Offered and in contract",
        says="Requests that ended, and of them those that kept every objective: goodput.",
        unit=Unit.REQUESTS_PER_SECOND,
        queries=[
            Query(
                expr=per_second(names.GATEWAY_ENDED_TOTAL, *SCOPE, by=by),
                legend=f"{named} offered",
            ),
            Query(
                expr=per_second(names.GATEWAY_IN_CONTRACT_TOTAL, *SCOPE, by=by),
                legend=f"{named} in contract",
            ),
        ],
    )


def _ends() -> Panel:
    return Panel(
        title="How requests end",
        says="By disposition. rejected and error spend budget, cancelled seldom does.",
        unit=Unit.REQUESTS_PER_SECOND,
        is_stacked=True,
        queries=[
            Query(
                expr=per_second(names.GATEWAY_ENDED_TOTAL, *SCOPE, by=(names.LABEL_DISPOSITION,)),
                legend=f"{{{{{names.LABEL_DISPOSITION}}}}}",
            )
        ],
    )


def _tokens() -> Panel:
    return Panel(
        title="Tokens",
        says="Prompt tokens of work that began, how many of them were reused, and output.",
        unit=Unit.PER_SECOND,
        queries=[
            Query(expr=per_second(name, *SCOPE), legend=what)
            for name, what in (
                (names.GATEWAY_INPUT_TOKENS_TOTAL, "prompt"),
                (names.GATEWAY_CACHED_INPUT_TOKENS_TOTAL, "of them reused"),
                (names.GATEWAY_OUTPUT_TOKENS_TOTAL, "output"),
            )
        ],
    )


def _latency() -> Row:
    server = f'{names.LABEL_BOUNDARY}="{Boundary.SERVER.value}"'
    return Row(
        title="How long it takes, p95 at the server",
        panels=[
            Panel(
                title=title,
                says="95 % of the requests were faster. One deployment's dashboard has the rest.",
                unit=Unit.SECONDS,
                queries=[
                    Query(
                        expr=quantile(0.95, HISTOGRAMS[signal], *SCOPE, server, by=(_DEPLOYMENT,)),
                        legend=f"{{{{{_DEPLOYMENT}}}}}",
                        has_exemplars=True,
                    )
                ],
            )
            for signal, title in (
                (ObjectiveSignal.TTFT, "First token"),
                (ObjectiveSignal.TPOT, "Each further token"),
                (ObjectiveSignal.E2E, "Whole answer"),
            )
        ],
    )


def _running() -> Row:
    return Row(title="What runs", panels=[_replicas(), _kv()])


def _replicas() -> Panel:
    state = names.LABEL_STATE
    return Panel(
        title="Replicas",
        says="Those that have not ended, by state.",
        width=12,
        queries=[
            Query(
                expr=total(names.CONTROLPLANE_REPLICAS, OF_DEPLOYMENT, by=(_DEPLOYMENT, state)),
                legend=f"{{{{{_DEPLOYMENT}}}}} {{{{{state}}}}}",
            )
        ],
        runbook="replica-crash-loop",
    )


def _kv() -> Panel:
    return Panel(
        title="KV cache in use",
        says="Blocks that requests refer to, of each pool of our own engines.",
        unit=Unit.SHARE,
        is_share_of_one=True,
        width=12,
        queries=[
            Query(
                expr=f"{series(names.REPLICA_KV_BLOCKS_REFERENCED, OF_DEPLOYMENT)} / "
                f"{series(names.REPLICA_KV_BLOCKS, OF_DEPLOYMENT)}",
                legend=f"{{{{{names.LABEL_REPLICA}}}}}",
            )
        ],
        runbook="cache-grown-contexts",
    )
