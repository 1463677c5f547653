"""`pilothouse fit`: learn what a replica takes, so that a simulation can take as long."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from controlplane.cli.client import url_option
from controlplane.cli.completion_words import complete_deployments
from controlplane.cli.examples import examples
from controlplane.cli.options import since_option, table_option, until_option
from controlplane.cli.output_file import check_folder
from controlplane.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataplane.record import RequestRecord
    from dataplane.simulation.fitting.document import Fit, Machine

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    epilog=examples(
        ("pilothouse fit --deployment chat --since 10m --out chat.fit.json", "a running service"),
        ("pilothouse fit gateway-0/spool --out chat.fit.json", "records that a gateway keeps"),
        ("pilothouse fit records.jsonl -o json", "the fit on standard output"),
        (
            "pilothouse fit --vllm-metrics metrics/*.txt --out vllm.fit.json",
            "scrapes of vLLM: coarse",
        ),
        ("pilothouse fit --vllm-spans traces.json --out vllm.fit.json", "vLLM's spans: finer"),
    )
)
@click.argument("records", metavar="[RECORDS]...", nargs=-1, type=click.Path())
@click.option("--out", type=_FILE, metavar="FILE", help="Where to save the fit, as JSON.")
@table_option("the fit itself, as --out saves it.")
@click.option(
    "--deployment",
    help="Only requests of this deployment.",
    shell_complete=complete_deployments,
)
@since_option
@until_option
@click.option(
    "--start",
    "starts",
    type=_FILE,
    multiple=True,
    metavar="STATUS.json",
    help="Status file of a replica that started, for the cold start; may be given several times. "
    "From a control plane the starts of its replicas are taken.",
)
@click.option(
    "--machine",
    help="Name of the machine that the replica ran on, where it is not this one.",
)
@click.option(
    "--vllm-metrics",
    type=_FILE,
    nargs=2,
    metavar="FIRST NEXT",
    help="Fit from saved scrapes of vLLM's /metrics instead: two from before and after some "
    "traffic, or better many, every few seconds while its load changes, in order of time (behind "
    "--vllm-metrics, as RECORDS: 'metrics/*.txt'). They show sums and no single step: what cannot "
    "be told from them is listed.",
)
@click.option(
    "--vllm-spans",
    is_flag=True,
    help="RECORDS are spans of vLLM (--otlp-traces-endpoint) instead, as OTLP JSON: files of a "
    "collector's file exporter, or of ops/calibration/span_file.py, or - for standard input. Who "
    "else ran beside a request says what its steps held, and spans of a start the cold start. What "
    "cannot be told from them is listed.",
)
@url_option
def fit(
    records: tuple[str, ...],
    out: Path | None,
    output: str,
    deployment: str | None,
    since: str | None,
    until: str | None,
    starts: tuple[Path, ...],
    machine: str | None,
    vllm_metrics: tuple[Path, Path] | None,
    vllm_spans: bool,
    url: str,
) -> None:
    """Fit what the steps of a replica take, from the records of its requests.

    RECORDS are files of full records as JSON lines, folders that hold such files (*.records,
    *.jsonl), or - for standard input. A gateway without a control plane keeps them in its
    spool. Without RECORDS they are asked from the control plane at --url.

    The records must be of all requests of a time: a step is put together from everybody who
    took part in it, and where somebody is missing it is left out. A control plane keeps the
    full record of a sample only, and of all while there are few: take a quiet time, or a spool.

    An endpoint that is attached (engine openai) shows its chunks and no step. Who else ran beside
    a request then says what its steps held, as with --vllm-spans. ops/calibration/calibrate_vllm.py
    tries all three on a real vLLM, and prints what a simulation of each fit predicts.

    Shown are the coefficients, how far off they are on steps that were not fitted, what differs
    from step to step, what surrounds the steps, the cold start, and what cannot be told. The
    file that --out saves can be named as the cost of a simulated replica.
    """
    from dataplane.simulation.fitting.fit import FitError

    about_records = bool(deployment or since or until or starts)
    if vllm_metrics is not None and (vllm_spans or about_records):
        raise click.UsageError(
            "--vllm-metrics is a source by itself; leave out --vllm-spans, --deployment, --since, "
            "--until and --start"
        )
    if vllm_spans and (about_records or not records):
        raise click.UsageError(
            "--vllm-spans needs files of spans, or -, and goes without --deployment, --since, "
            "--until and --start"
        )
    if out is not None:
        check_folder(out)
    try:
        if vllm_metrics is not None:
            found = _fit_scrapes((*vllm_metrics, *map(Path, records)), machine)
        elif vllm_spans:
            found = _fit_spans(records, machine)
        else:
            found = _fit_records(records, url, deployment, (since, until), starts, machine)
    except FitError as error:
        raise click.ClickException(f"no fit: {error}") from error
    _show(found, output)
    if out is not None:
        _save(found, out)


def _fit_scrapes(scrapes: tuple[Path, ...], machine: str | None) -> "Fit":
    from dataplane.simulation.fitting.vllm import fit_vllm

    return fit_vllm(scrapes, _machine(machine))


def _fit_spans(names: tuple[str, ...], machine: str | None) -> "Fit":
    from controlplane.cli.span_sources import read_span_files
    from dataplane.simulation.fitting.vllm_spans import fit_vllm_spans

    return fit_vllm_spans(read_span_files(names), _machine(machine))


def _fit_records(
    names: tuple[str, ...],
    url: str,
    deployment: str | None,
    time: tuple[str | None, str | None],
    starts: tuple[Path, ...],
    machine: str | None,
) -> "Fit":
    from controlplane.cli.record_sources import ask_control_plane, read_record_files, read_starts
    from dataplane.simulation.fitting.fit import fit_records

    given = read_starts(starts)
    if names:
        records = read_record_files(names, *time)
    else:
        records, told = ask_control_plane(url, deployment, *time)
        given = given or told
    if deployment is not None:
        _check_deployment(records, deployment)
    return fit_records(records, _machine(machine), given, deployment)


def _check_deployment(records: "Sequence[RequestRecord]", deployment: str) -> None:
    """Raises UsageError when requests are of other deployments alone."""
    there_are = sorted({each.deployment for each in records if each.deployment is not None})
    if records and deployment not in there_are:
        known = f"they are of {', '.join(there_are)}" if there_are else "they name none"
        raise click.UsageError(
            f"none of {len(records)} requests is of the deployment {deployment!r}; {known}. Name "
            f"another with --deployment, or leave it out"
        )


def _machine(name: str | None) -> "Machine":
    """This one, unless another is named: of that nothing else is known."""
    from dataplane.simulation.fitting.document import Machine
    from dataplane.simulation.fitting.fit import this_machine

    if name is None:
        return this_machine()
    return Machine(name=name, processor="unknown", num_processors=None)


def _show(found: "Fit", output: str) -> None:
    from controlplane.cli.fit_output import fit_text
    from dataplane.simulation.fitting.document import encode_fit

    if output == "json":
        click.echo(encode_fit(found).decode(), nl=False)
    else:
        say(fit_text(found))


def _save(found: "Fit", out: Path) -> None:
    from dataplane.simulation.fitting.document import save_fit

    try:
        save_fit(found, out)
    except OSError as error:
        raise click.ClickException(
            f"the fit cannot be saved to {out}: {error.strerror}; name another place with --out"
        ) from error
    say(f"saved to {out}", is_error=True)
