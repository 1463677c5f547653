"""The options of `pilothouse simulate` about what an observer sees. Imports nothing heavy."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

DIALECTS = ("pilothouse", "vllm", "vllm-0.10", "vllm-v0", "sglang", "llamacpp")
DEFAULT_DIALECT = "pilothouse"
DEFAULT_EVERY_SECONDS = 5.0
LONGEST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """What is to be seen, and where it goes."""

    folder: Path
    dialect: str = DEFAULT_DIALECT
    every_seconds: float = DEFAULT_EVERY_SECONDS


def _read_every(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> float | None:
    if value is None:
        return None
    from controlplane.specs.quantity import parse_duration

    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not 0.1 <= seconds <= LONGEST_SECONDS:
        raise click.BadParameter(
            f"{value} is not between 100ms and 1h; scrapes are 1s to 15s apart"
        )
    return seconds


def metrics_options(command: Command) -> Command:
    """`--metrics`, `--dialect` and `--every`."""
    for option in (
        click.option(
            "--every",
            metavar="DURATION",
            callback=_read_every,
            help="How often replicas are scraped, in virtual time. Default: 5s.",
        ),
        click.option(
            "--dialect",
            type=click.Choice(DIALECTS),
            help="Whose series and log lines the replicas of a Scenario have. Default: pilothouse.",
        ),
        click.option(
            "--metrics",
            metavar="DIR",
            type=click.Path(file_okay=False, path_type=Path),
            help="Write there what the replicas of a Scenario would export: metrics.jsonl, a "
            "scrape of /metrics a line; events.jsonl, the lines of their logs; gateways.jsonl, "
            "what the gateways count. A fault is only seen by what it does.",
        ),
    ):
        command = option(command)
    return command


def read_metrics_options(
    folder: Path | None, dialect: str | None, every_seconds: float | None
) -> MetricsOptions | None:
    """None where nothing is to be written. Raises UsageError for options without `--metrics`."""
    if folder is None:
        if dialect is not None or every_seconds is not None:
            raise click.UsageError("--dialect and --every say how to write --metrics DIR; give it")
        return None
    return MetricsOptions(
        folder=folder,
        dialect=dialect or DEFAULT_DIALECT,
        every_seconds=every_seconds or DEFAULT_EVERY_SECONDS,
    )
