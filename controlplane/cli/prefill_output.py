"""What chunked prefill came to, for people and for programs."""

from collections.abc import Sequence
from typing import Any

from controlplane.cli.terminal import indented, say, say_json, table
from dataplane.simulation.chunked_prefill import PrefillCase, PrefillRun


def print_runs(case: PrefillCase, runs: Sequence[PrefillRun], output: str) -> None:
    """One entry a budget, in their order."""
    if output == "json":
        say_json([_facts(case, run) for run in runs])
    else:
        say(_text(case, runs))


def _facts(case: PrefillCase, run: PrefillRun) -> dict[str, Any]:
    """The keys of the golden case."""
    number = run.scale.number
    gap = {} if run.largest_gap is None else {_one_of(case): number(run.largest_gap)}
    return {
        "prompt_budget": run.prompt_budget,
        "first_selection_after_arrival_ms": {
            name: number(ticks) for name, ticks in run.first_selection_after_arrival.items()
        },
        "largest_gap_ms": gap,
        "finish_ms": number(run.finish),
        "iterations": run.num_iterations,
        "overhead_ms": number(run.overhead),
        "prompt_tokens": run.num_prompt_tokens,
        "decode_steps": run.num_decode_steps,
        "earlier_positions_reread": run.num_reread_tokens,
        "table": list(run.table),
    }


def _one_of(case: PrefillCase) -> str:
    """Those who decode at zero, as one name: A_or_B."""
    return "_or_".join(case.decoding)


def _text(case: PrefillCase, runs: Sequence[PrefillRun]) -> str:
    parts = [table([_headings(case), *(_row(case, run) for run in runs)])]
    for run in runs:
        lines = table([line.split(" ", 1) for line in run.table])
        parts.append(f"prompt budget {run.prompt_budget}, ms\n{indented(lines)}".rstrip("\n"))
    return "\n\n".join(parts)


def _headings(case: PrefillCase) -> list[str]:
    return [
        "PROMPT BUDGET",
        *(f"{arrival.request_id} FIRST MS" for arrival in case.arrivals),
        *([f"{_one_of(case)} GAP MS"] if case.decoding else []),
        "FINISH MS",
        "ITERATIONS",
        "OVERHEAD MS",
        "PROMPT TOKENS",
        "DECODE STEPS",
        "REREAD",
    ]


def _row(case: PrefillCase, run: PrefillRun) -> list[str]:
    text = run.scale.text
    gap = "-" if run.largest_gap is None else text(run.largest_gap)
    firsts = (run.first_selection_after_arrival[each.request_id] for each in case.arrivals)
    return [
        str(run.prompt_budget),
        *map(text, firsts),
        *([gap] if case.decoding else []),
        text(run.finish),
        str(run.num_iterations),
        text(run.overhead),
        str(run.num_prompt_tokens),
        str(run.num_decode_steps),
        str(run.num_reread_tokens),
    ]
