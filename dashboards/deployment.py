"""One deployment: what its callers see, in which phase the time goes, and how full its KV is."""

from dashboards.fleet import fleet_variables
from dashboards.frame import DEPLOYMENT_SERIES, Plan, Variable
from dashboards.latency_panels import latency_panel, percentiles
from dashboards.panel import Panel, Row, Unit
from dashboards.query import (
    INTERVAL,
    OF_DEPLOYMENT,
    SCOPE,
    Query,
    label_is,
    per_second,
    quantile,
    series,
)
from dataplane import names
from dataplane.contract_terms import ObjectiveSignal
from dataplane.latency import Boundary

_CLASS, _REPLICA = f"{{{{{names.LABEL_REQUEST_CLASS}}}}}", f"{{{{{names.LABEL_REPLICA}}}}}"
_OF_REPLICA = (names.LABEL_REPLICA,)


def deployment() -> Plan:
    """Of the deployment that is chosen above it."""
    return Plan(
        uid="pilothouse-deployment",
        title="Pilothouse / Deployment",
        says="What callers of one deployment see, the phases of its requests, and its engines.",
        variables=_variables(),
        is_of=OF_DEPLOYMENT,
        console_path="/deployments/${deployment}",
        rows=[_latencies(), _traffic(), _phases(), _memory(), _engine()],
    )


def _variables() -> tuple[Variable, ...]:
    of_class = fleet_variables()[1]
    measured = series(f"{names.GATEWAY_TTFT_SECONDS}_count", OF_DEPLOYMENT)
    return (
        Variable(
            name="deployment",
            label="Deployment",
            query=f"label_values({DEPLOYMENT_SERIES}, {names.LABEL_DEPLOYMENT})",
        ),
        of_class,
        Variable(
            name="boundary",
            label="Measured at",
            query=f"label_values({measured}, {names.LABEL_BOUNDARY})",
            first=Boundary.SERVER.value,
        ),
    )


def _latencies() -> Row:
    return Row(
        title="What callers wait for",
        panels=[
            latency_panel(
                ObjectiveSignal.TTFT,
                "Time to first token",
                "From the request's first byte until the first token passes the boundary.",
                "queue-overload",
            ),
            latency_panel(
                ObjectiveSignal.TPOT,
                "Time per further token",
                "Of each answer, after its first token.",
                "interference-prefill",
            ),
            latency_panel(
                ObjectiveSignal.E2E,
                "Whole answer",
                "Until the last token. Longer answers take longer: read it beside the tokens.",
                "overload",
            ),
        ],
    )


def _traffic() -> Row:
    return Row(
        title="What comes, and what becomes of it",
        panels=[_goodput(), _ends(), _tokens()],
    )


def _goodput() -> Panel:
    judged, kept = names.GATEWAY_CONTRACT_JUDGED_TOTAL, names.GATEWAY_IN_CONTRACT_TOTAL
    by = (names.LABEL_REQUEST_CLASS,)
    return Panel(
        title="Goodput beside all that was offered",
        says="in contract: kept every objective. judged: a contract applied. offered: all.",
        unit=Unit.REQUESTS_PER_SECOND,
        queries=[
            Query(expr=per_second(name, *SCOPE, by=by), legend=f"{_CLASS} {what}")
            for name, what in (
                (names.GATEWAY_ENDED_TOTAL, "offered"),
                (judged, "judged"),
                (kept, "in contract"),
            )
        ],
    )


def _ends() -> Panel:
    disposition = names.LABEL_DISPOSITION
    return Panel(
        title="How requests end",
        says="By disposition. What is rejected or failed spends budget.",
        unit=Unit.REQUESTS_PER_SECOND,
        is_stacked=True,
        queries=[
            Query(
                expr=per_second(names.GATEWAY_ENDED_TOTAL, *SCOPE, by=(disposition,)),
                legend=f"{{{{{disposition}}}}}",
            )
        ],
    )


def _tokens() -> Panel:
    return Panel(
        title="Tokens",
        says="Prompt tokens computed and reused, and output tokens.",
        unit=Unit.PER_SECOND,
        queries=[
            Query(
                expr=f"{per_second(names.GATEWAY_INPUT_TOKENS_TOTAL, *SCOPE)} - "
                f"{per_second(names.GATEWAY_CACHED_INPUT_TOKENS_TOTAL, *SCOPE)}",
                legend="prompt, computed",
            ),
            Query(
                expr=per_second(names.GATEWAY_CACHED_INPUT_TOKENS_TOTAL, *SCOPE),
                legend="prompt, reused",
            ),
            Query(
                expr=per_second(names.GATEWAY_OUTPUT_TOKENS_TOTAL, *SCOPE),
                legend="output",
            ),
        ],
    )


def _phases() -> Row:
    return Row(
        title="Where the time goes",
        panels=[
            Panel(
                title="Requests in each phase",
                says="Seconds spent in a phase per second, which is how many requests are in it "
                "(Little's law). Sums can be subtracted where percentiles cannot. What grows "
                "here before latencies do is the cause.",
                is_stacked=True,
                is_signed=True,
                queries=_in_each_phase(),
            ),
            Panel(
                title="Time in the queue",
                says="From the arrival until engine work begins.",
                unit=Unit.SECONDS,
                queries=percentiles(names.GATEWAY_QUEUE_TIME_SECONDS, *SCOPE),
                runbook="queue-overload",
            ),
            Panel(
                title="Longest gap of an answer",
                says="In which its engine sent nothing of it. Whether the client reads fast "
                "enough does not count.",
                unit=Unit.SECONDS,
                queries=percentiles(names.GATEWAY_LONGEST_GAP_SECONDS, *SCOPE),
                runbook="interference-prefill",
            ),
        ],
    )


def _in_each_phase() -> list[Query]:
    server = label_is(names.LABEL_BOUNDARY, Boundary.SERVER.value)
    queue = per_second(f"{names.GATEWAY_QUEUE_TIME_SECONDS}_sum", *SCOPE)
    first = per_second(f"{names.GATEWAY_TTFT_SECONDS}_sum", *SCOPE, server)
    last = per_second(f"{names.GATEWAY_E2E_SECONDS}_sum", *SCOPE, server)
    return [
        Query(expr=queue, legend="queue"),
        Query(expr=f"{first} - {queue}", legend="prefill, until the first token is sent"),
        Query(expr=f"{last} - {first}", legend="decode, until the last token is sent"),
    ]


def _memory() -> Row:
    return Row(
        title="KV cache of each replica",
        panels=[_blocks(), _reused(), _preempted()],
    )


def _blocks() -> Panel:
    referenced, cached, free, pool = (
        series(name, OF_DEPLOYMENT)
        for name in (
            names.REPLICA_KV_BLOCKS_REFERENCED,
            names.REPLICA_KV_BLOCKS_CACHED,
            names.REPLICA_KV_BLOCKS_FREE,
            names.REPLICA_KV_BLOCKS,
        )
    )
    return Panel(
        title="In use and free",
        says="Shares of the pool: what requests refer to, and what could be handed out "
        "now, cached blocks that nobody refers to among it.",
        unit=Unit.SHARE,
        is_share_of_one=True,
        queries=[
            Query(expr=f"{referenced} / {pool}", legend=f"{_REPLICA} in use"),
            Query(expr=f"{free} / {pool}", legend=f"{_REPLICA} free"),
            Query(expr=f"{cached} / {pool}", legend=f"{_REPLICA} cached"),
        ],
        runbook="cache-grown-contexts",
    )


def _reused() -> Panel:
    return Panel(
        title="Prompt tokens reused",
        says="Share of prompt tokens whose KV was there already.",
        unit=Unit.SHARE,
        is_share_of_one=True,
        queries=[
            Query(
                expr=f"{per_second(names.GATEWAY_CACHED_INPUT_TOKENS_TOTAL, *SCOPE)} / "
                f"({per_second(names.GATEWAY_INPUT_TOKENS_TOTAL, *SCOPE)} > 0)",
                legend="reused",
            )
        ],
        runbook="cache-prefix-loss",
    )


def _preempted() -> Panel:
    return Panel(
        title="Preempted, and never given back",
        says="preempted: sequences that lost their blocks, a second. unreleased: requests "
        "that ended and still hold something.",
        queries=[
            Query(
                expr=per_second(names.REPLICA_PREEMPTIONS_TOTAL, OF_DEPLOYMENT, by=_OF_REPLICA),
                legend=f"{_REPLICA} preempted",
            ),
            Query(
                expr=series(names.REPLICA_UNRELEASED_REQUESTS, OF_DEPLOYMENT),
                legend=f"{_REPLICA} unreleased",
            ),
        ],
        runbook="cache-thrash",
    )


def _engine() -> Row:
    return Row(
        title="Steps of each replica",
        panels=[_seats(), _step_time(), _step_work()],
    )


def _seats() -> Panel:
    return Panel(
        title="Seats taken, and who waits inside",
        says="Sequences that hold a slot against how many may; the gateway keeps an "
        "engine's own queue about one step deep.",
        queries=[
            Query(expr=series(name, OF_DEPLOYMENT), legend=f"{_REPLICA} {what}")
            for name, what in (
                (names.REPLICA_ACTIVE_SEQUENCES, "active"),
                (names.REPLICA_WAITING_REQUESTS, "waiting"),
                (names.REPLICA_MAX_NUM_SEQS, "at most"),
            )
        ],
        runbook="batch-underfilled",
    )


def _step_time() -> Panel:
    return Panel(
        title="Time of a step, and from cancel to release",
        says="p99 of both. A step bounds how soon a cancel can be seen.",
        unit=Unit.SECONDS,
        queries=[
            Query(
                expr=quantile(0.99, histogram, OF_DEPLOYMENT, by=_OF_REPLICA),
                legend=f"{_REPLICA} {what}",
            )
            for histogram, what in (
                (names.REPLICA_STEP_SECONDS, "step"),
                (names.REPLICA_CANCEL_TO_RELEASE_SECONDS, "cancel to release"),
            )
        ],
        runbook="host-bound",
    )


def _step_work() -> Panel:
    return Panel(
        title="Work of a step",
        says="Prompt tokens and decode steps that were scheduled, by steps that ran: "
        "prompts that crowd out answers show here.",
        queries=[
            Query(
                expr=f"rate({series(name, OF_DEPLOYMENT)}[{INTERVAL}]) / "
                f"(rate({series(names.REPLICA_STEPS_TOTAL, OF_DEPLOYMENT)}[{INTERVAL}])"
                " > 0)",
                legend=f"{_REPLICA} {what}",
            )
            for name, what in (
                (names.REPLICA_SCHEDULED_PROMPT_TOKENS_TOTAL, "prompt tokens"),
                (names.REPLICA_SCHEDULED_DECODE_STEPS_TOTAL, "decode steps"),
            )
        ],
        runbook="interference-prefill",
    )
