"""`pilothouse simulate`: let a file happen in virtual time."""

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.metrics_options import metrics_options, read_metrics_options
from controlplane.cli.options import output_option
from controlplane.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.cli.simulate_fleet import FleetOptions
    from controlplane.specs.problem import Problem
    from controlplane.specs.source import Source


@click.command(
    epilog=examples(
        ("pilothouse simulate case.yaml", "chunked prefill under several prompt budgets"),
        ("pilothouse simulate case.yaml -o json", "the same, for programs"),
        ("pilothouse simulate -", "a document on standard input"),
        ("pilothouse simulate fleet.yaml", "a Scenario: replicas, gateways and who calls"),
        ("pilothouse simulate fleet.yaml --records out.jsonl", "and the record of each request"),
        ("pilothouse simulate fleet.yaml --metrics seen/", "and what its replicas would export"),
    )
)
@click.argument("file", metavar="FILE|-", type=click.Path())
@click.option(
    "--records",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the records of a Scenario's requests there, as JSON lines.",
)
@click.option(
    "--send",
    metavar="URL",
    help="Send the records of a Scenario's requests to the control plane there, as gateways do; "
    "unless the Scenario or --starts-at says when, the whole run is moved to end now.",
)
@click.option(
    "--starts-at",
    metavar="INSTANT",
    help="The moment in UTC from which a Scenario's records count, such as 2026-01-01T00:00:00Z, "
    "whatever the file says.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    help="Records of so many requests, each as likely as any other. Default: of all.",
)
@click.option(
    "--histograms",
    is_flag=True,
    help="Keep no row of any request: percentiles are then within 1 %, and memory does not grow.",
)
@metrics_options
@output_option
def simulate(
    file: str,
    records: Path | None,
    send: str | None,
    starts_at: str | None,
    sample: int | None,
    histograms: bool,
    metrics: Path | None,
    dialect: str | None,
    every: float | None,
    output: str,
) -> None:
    """Let a file happen in virtual time, on the code that serves for real.

    A Scenario (kind: Scenario) is a fleet: replicas with what their steps cost, gateways with
    policy and contract, and who calls. It is told what became of the requests of each class,
    how long they took, and how busy the replicas were. The same seed gives the same bytes. With
    `phases`, some replicas compute prompts and the others decode, with a link between them. Its
    `faults` say what goes wrong; ops/examples/simulate/faults/ has one of each. What nothing ends,
    such as a replica that hangs for good before clients that wait for ever, is in flight when the
    run is over: it is counted as that, and has no record.

    Records are told apart by what the scenario holds and by when it starts: an edited scenario
    makes new ones, and the same one, sent again with the same start, counts once. With --send
    and no start of its own, a run is moved to end now and says where it was moved to; nothing
    remembers that, so name it with --starts-at to send the same records again. What is older
    than what the control plane keeps is soon removed there, and a warning says so.

    Any other file, YAML or JSON, holds cost_model_ms (iteration, per_prompt_token, per_decode_step,
    per_earlier_prompt_position_reread), given (slots, total_batch_tokens, decoding_at_zero,
    arrivals) and prompt_budgets. For each budget it is told when every arrival selects its
    first token, the largest gap of those who decode already, and what every iteration does:
    `3-8 A:D1 C:P4` decodes one token of A and computes four prompt tokens of C, from 3 to 8 ms.

    Decimals are exact. Asks nobody, and needs no control plane. With a mistake in the file, exit
    code 2, and every mistake is named with its place. ops/examples/simulate/ has a file to
    begin with.
    """
    # Imported here: they cost more than the rest of the command line together.
    from controlplane.cli.prefill_output import print_runs
    from controlplane.specs.prefill_case import read_prefill_case
    from dataplane.simulation.chunked_prefill import run_case

    source = _read_one(file)
    if _is_scenario(source):
        from controlplane.cli.simulate_fleet import FleetOptions

        _simulate_fleet(
            source,
            FleetOptions(
                output=output,
                records=records,
                send=send,
                starts_at_unix_ns=_read_instant(starts_at),
                sample=sample,
                keeps_rows=not histograms,
                metrics=read_metrics_options(metrics, dialect, every),
            ),
        )
        return
    if records or send or starts_at or sample or histograms or metrics or dialect or every:
        raise click.UsageError(
            "--records, --send, --starts-at, --sample, --histograms, --metrics, --dialect and "
            "--every are for a Scenario"
        )
    document, problems = read_prefill_case(source)
    if document is None:
        _refuse(problems)
    runs = [run_case(document.case, budget) for budget in document.prompt_budgets]
    print_runs(document.case, runs, output)


def _is_scenario(source: "Source") -> bool:
    """By its kind. Ends the command where it says another, which nothing simulates."""
    from controlplane.specs.kind import nearest

    if not isinstance(source.data, dict) or "kind" not in source.data:
        return False
    kind = source.data["kind"]
    if kind != "Scenario":
        hint = "; did you mean Scenario?" if nearest(str(kind), ["Scenario"]) else "."
        said = f"nothing of the kind {kind!r:.60} is simulated{hint} Valid: Scenario"
        _refuse([source.problem(("kind",), said)])
    return True


def _read_instant(text: str | None) -> int | None:
    from controlplane.specs.scenario import check_instant, parse_instant

    if text is None:
        return None
    try:
        return parse_instant(check_instant(text))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--starts-at") from error


def _simulate_fleet(source: "Source", options: "FleetOptions") -> None:
    from controlplane.cli.simulate_fleet import simulate_fleet
    from controlplane.specs.scenario_compiling import read_scenario

    document, problems = read_scenario(source, Path(source.file).parent)
    if document is None:
        _refuse(problems)
    simulate_fleet(document, options)


def _read_one(file: str) -> "Source":
    """The one document of a file. Ends the command where there is none, or more."""
    from controlplane.cli.config_files import read_files
    from controlplane.specs.yaml_reader import read_yaml

    texts = read_files([file])
    if len(texts) > 1:
        raise click.UsageError(f"{file} is a folder with {len(texts)} files; name one of them")
    [(name, text)] = texts
    sources, problems = read_yaml(name, text)
    if problems:
        _refuse(problems)
    if not sources:
        raise click.UsageError(f"{name} is empty; `pilothouse simulate --help` says what it holds")
    if len(sources) > 1:
        _refuse([sources[1].problem((), "one document at a time; put this one into its own file")])
    return sources[0]


def _refuse(problems: "Iterable[Problem]") -> NoReturn:
    told = [str(problem) for problem in problems]
    for problem in told:
        say(problem, is_error=True)
    count = "1 problem" if len(told) == 1 else f"{len(told)} problems"
    say(f"{count}; nothing was simulated", is_error=True)
    raise SystemExit(ExitCode.USAGE)
