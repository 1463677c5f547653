"""`pilothouse diagnose`: what is wrong with an engine, from what it shows or left behind."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from controlplane.cli.enough import Enough
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.options import output_option
from controlplane.cli.terminal import say, say_json

if TYPE_CHECKING:
    from controlplane.diagnosis.rule import Rule
    from controlplane.diagnosis.sources.live import Progress
    from controlplane.diagnosis.window import Window

_STANDARD_INPUT = "-"


def _duration(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    from controlplane.specs.quantity import parse_duration

    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    epilog=examples(
        ("pilothouse diagnose http://host:8000", "watch an engine for a minute and say"),
        ("pilothouse diagnose host-a:8000 host-b:8000 --for 2m", "replicas of one service"),
        ("pilothouse diagnose engine.log", "a log: vLLM, SGLang, llama.cpp, TGI, the kernel"),
        ("pilothouse diagnose before.txt after.txt engine.log", "saved /metrics pages and a log"),
        ("kubectl logs engine-0 | pilothouse diagnose -", "whatever comes on standard input"),
        (
            "pilothouse requests --all -o json --since 30m --deployment chat | pilothouse "
            "diagnose -",
            "what our own records tell",
        ),
        ("pilothouse diagnose --case case.yaml -o json", "a written case, for programs"),
        (
            "pilothouse diagnose --prometheus http://prom:9090 --since 30m "
            "--selector 'job=\"vllm\"'",
            "from a Prometheus server",
        ),
    )
)
@click.argument("targets", metavar="[URL|FILE|-]...", nargs=-1)
@click.option(
    "--case",
    "case",
    type=click.Path(),
    help="A case in the format of tests/incidents/README.md; - for standard input.",
)
@click.option(
    "--for",
    "seconds",
    default="60s",
    show_default=True,
    metavar="DURATION",
    callback=_duration,
    help="How long to watch a URL.",
)
@click.option(
    "--every",
    default="1s",
    show_default=True,
    metavar="DURATION",
    callback=_duration,
    help="How often to read it meanwhile; no longer than --for, or it is refused.",
)
@click.option(
    "--probe",
    is_flag=True,
    help="Also send one completion of one token: the only thing that is ever sent.",
)
@click.option("--prometheus", metavar="URL", help="Read a Prometheus server instead.")
@click.option(
    "--selector",
    metavar="LABELS",
    help="With --prometheus: which targets, as in a query between the braces.",
)
@click.option(
    "--since",
    default="10m",
    show_default=True,
    metavar="DURATION",
    callback=_duration,
    help="With --prometheus: from how long ago until now.",
)
@click.option(
    "--deployment",
    metavar="NAME",
    help="With FILEs of records that are of several deployments: which one is meant.",
)
@click.option(
    "--engine-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Holds the key that the engine, or Prometheus, wants to see (Authorization: Bearer).",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="NAME",
    help="Apply the rules of an installed plugin as well.",
)
@output_option
def diagnose(
    targets: tuple[str, ...],
    case: str | None,
    seconds: float,
    every: float,
    probe: bool,
    prometheus: str | None,
    selector: str | None,
    since: float,
    deployment: str | None,
    engine_key_file: Path | None,
    plugins: tuple[str, ...],
    output: str,
) -> None:
    """Say what is wrong with an engine, how sure that is, and what else it could be.

    A URL is watched for a minute: its metrics and what it says of itself are read by GET requests,
    to it alone (through no proxy, and to no other server that it redirects to), and nothing is
    changed or installed. Ctrl-C ends the watch, and what was seen is judged; where nothing was, or
    at a second one, it ends with 130. FILEs are saved
    /metrics pages, logs, and records of requests as `pilothouse requests --all -o json` and
    `pilothouse simulate --records` write them, or all of these; what each is, is seen in it.
    Of a log of more than 32 MiB the newest part is read, which is told; a metrics page may have 16
    MiB and 8000 engines, a folder 2000 files of 1 GiB in all; devices and named pipes are refused,
    and what a shell hands over, `<(command)`, is read. A last line of a page that no line break
    ends may be cut within a number: it is left out, which is told. Signals that are missing, stale
    or strange are told of and not trusted. `healthy` and `cannot_tell` are answers too, the second
    with what would settle it.

    A URL that refuses connections, never answers, or answers no metrics page is evidence as well:
    what its port and its other pages say is judged after a quarter of a minute, and at once where
    it answers something else: a redirect, a web page, no HTTP. The command ends
    with 0 where there is an answer, whatever it says; with 5 where no URL, or no Prometheus, had
    metrics to show, after the answer to what else was seen; with 2 where it cannot read what was
    named.
    """
    silent: CallError | None = None
    ways = [name for name, is_used in _ways(targets, case, prometheus) if is_used]
    if len(ways) != 1:
        told = " and ".join(ways) if ways else "nothing"
        raise click.UsageError(f"{told} given: name URLs, or FILEs, or --case, or --prometheus")
    _refuse_idle_options(ways[0])
    headers = _headers(engine_key_file)
    match ways[0]:
        case "URLs":
            every = _no_longer_than(seconds, every)
            with Enough() as enough:
                _rules(plugins)  # one that is not there is told before a minute is watched
                window, silent = _watched(targets, seconds, every, probe, headers, enough)
        case "FILEs":
            window = _read(targets, deployment)
        case "--case":
            window = _case(case or "")
        case _:
            window = _asked(prometheus or "", selector, since, headers)
    _tell(window, _rules(plugins), output)
    if silent is not None:
        raise silent


_OF_WAYS = {
    "URLs": {"seconds": "--for", "every": "--every", "probe": "--probe"},
    "--prometheus": {"selector": "--selector", "since": "--since"},
    "FILEs": {"deployment": "--deployment"},
}
"""Options by the only way in that they belong to."""


def _refuse_idle_options(way: str) -> None:
    """An option that would change nothing was meant to change something."""
    context = click.get_current_context()
    for other, options in _OF_WAYS.items():
        for name, option in options.items():
            source = context.get_parameter_source(name)
            if other != way and source is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{option} belongs to {other}, and here are {way}")


def _no_longer_than(seconds: float, every: float) -> float:
    """How often to read. A watch that ends before it would be read again is a slip, unless nobody
    said how often."""
    if every <= seconds:
        return every
    source = click.get_current_context().get_parameter_source("every")
    if source is not ParameterSource.DEFAULT:
        raise click.UsageError(
            f"--every {every:g}s is longer than the watch, --for {seconds:g}s: give a longer "
            "--for, or a shorter --every"
        )
    return seconds


def _ways(
    targets: Sequence[str], case: str | None, prometheus: str | None
) -> list[tuple[str, bool]]:
    urls = [target for target in targets if _is_url(target)]
    return [
        ("URLs", bool(urls)),
        ("FILEs", len(urls) < len(targets)),
        ("--case", case is not None),
        ("--prometheus", prometheus is not None),
    ]


def _is_url(target: str) -> bool:
    """A name with a scheme, or of a host and a port that is no file."""
    if "://" in target:
        return True
    host, colon, port = target.rpartition(":")
    return bool(colon and host and port.partition("/")[0].isdigit()) and not Path(target).exists()


def _rules(plugins: Sequence[str]) -> "tuple[Rule, ...]":
    from controlplane.diagnosis.rule_book import load_rules
    from dataplane.plugins import PluginError

    try:
        return load_rules(plugins)
    except PluginError as error:
        raise CallError(str(error), ExitCode.USAGE) from error


def _headers(key_file: Path | None) -> dict[str, str]:
    if key_file is None:
        return {}
    try:
        key = key_file.read_text(errors="replace").strip()
    except OSError as error:
        raise CallError(f"{key_file} cannot be read: {error.strerror}", ExitCode.USAGE) from error
    if not key or not (key.isascii() and key.isprintable()):
        raise CallError(f"{key_file} holds no key that a header can carry", ExitCode.USAGE)
    return {"authorization": f"Bearer {key}"}


def _watched(
    urls: Sequence[str],
    seconds: float,
    every: float,
    probe: bool,
    headers: dict[str, str],
    enough: Enough,
) -> "tuple[Window, CallError | None]":
    """What was seen, and what to say at the end where no metrics page was."""
    import asyncio

    from controlplane.diagnosis.sources.live import NoMetricsError, StoppedError, watch

    async def follow() -> "Window":
        return await _until_its_window(
            watch(
                urls,
                seconds=seconds,
                every=every,
                should_probe=probe,
                headers=headers,
                enough=enough.event(),
            )
        )

    try:
        return asyncio.run(follow()), None
    except NoMetricsError as error:
        failure = CallError(str(error), ExitCode.UNREACHABLE)
        if error.window is None:
            raise failure from error
        return error.window, failure
    except StoppedError as error:
        raise CallError(str(error), ExitCode.INTERRUPTED) from error
    except ValueError as error:
        raise CallError(str(error), ExitCode.USAGE) from error


async def _until_its_window(watching: "AsyncIterator[Progress | Window]") -> "Window":
    """Shows how far it is meanwhile."""
    from controlplane.cli.progress import progress_bar
    from controlplane.diagnosis.sources.live import Progress

    with progress_bar() as bar:
        async for seen in watching:
            if not isinstance(seen, Progress):
                return seen
            failed = f", {seen.num_failed} failed" if seen.num_failed else ""
            bar.advance(f"{seen.num_scrapes} scrapes{failed}", seen.seconds / seen.of_seconds)
    raise AssertionError("a watch ends with its window")


def _read(files: Sequence[str], deployment: str | None) -> "Window":
    from controlplane.cli.progress import progress_bar
    from controlplane.diagnosis.sources.files import InputError, read_inputs

    try:
        with progress_bar() as bar:
            return read_inputs(
                files,
                told=lambda place, share: bar.advance(f"read {place}", share),
                deployment=deployment,
            )
    except InputError as error:
        raise CallError(str(error), ExitCode.USAGE) from error


def _case(file: str) -> "Window":
    from controlplane.diagnosis.sources.case import CaseError, read_case
    from controlplane.diagnosis.sources.case_bounds import MOST_CHARACTERS

    try:
        with click.open_file(file, encoding="utf-8") as opened:
            text = opened.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise CallError(f"{file}: it cannot be read: {why}", ExitCode.USAGE) from error
    try:
        return read_case(text, file).window
    except CaseError as error:
        raise CallError(str(error), ExitCode.USAGE) from error


def _asked(url: str, selector: str | None, since: float, headers: dict[str, str]) -> "Window":
    import asyncio
    import time

    from controlplane.diagnosis.sources.prometheus_server import PrometheusError, read_prometheus

    now = time.time()
    try:
        return asyncio.run(
            read_prometheus(
                url, start=now - since, end=now, selector=selector or "", headers=headers
            )
        )
    except PrometheusError as error:
        raise CallError(str(error), ExitCode.UNREACHABLE) from error


def _tell(window: "Window", rules: "Sequence[Rule]", output: str) -> None:
    from controlplane.cli.diagnosis_output import diagnosis_text
    from controlplane.cli.progress import progress_bar
    from controlplane.diagnosis.json_form import diagnosis_as_json
    from controlplane.diagnosis.lasting import diagnose_course

    with progress_bar() as bar:
        bar.advance("judge what was read")
        diagnosis = diagnose_course(window, rules)
    if output == "json":
        say_json(diagnosis_as_json(diagnosis))
    else:
        say(diagnosis_text(diagnosis))
