"""How much request data is kept: options of what runs a control plane, and of pruning."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from controlplane.store.retention import Retention, StorageSettings

Command = TypeVar("Command", bound=Callable[..., Any])
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B?|B)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class ByteSize(click.ParamType[int]):
    """Like 512MiB or 20G; units are powers of 1024."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no size; write it like 512MiB or 20GiB", param, ctx)
        return int(float(found[1]) * _UNITS[(found[2] or "")[:1].lower()])


def _days_option(what: str, days: float, says: str) -> Callable[[Command], Command]:
    return click.option(
        f"--keep-{what}-days",
        type=click.FloatRange(min=0, min_open=True),
        default=days,
        show_default=True,
        envvar=f"PILOTHOUSE_KEEP_{what.upper()}_DAYS",
        show_envvar=True,
        help=f"How long {says} are kept.",
    )


_DAYS_OPTIONS = (
    _days_option("full", 14, "the full records of errors, violators and a sample"),
    _days_option("row", 35, "compact rows, one for every request,"),
    _days_option("count", 400, "the exact counts per minute"),
)
_SIZE_OPTIONS = (
    click.option(
        "--max-request-data",
        type=ByteSize(),
        envvar="PILOTHOUSE_MAX_REQUEST_DATA",
        show_envvar=True,
        help="Remove the oldest full records and rows earlier when request data grows larger, "
        "like 20GiB. Without it, age alone decides.",
    ),
    click.option(
        "--reserve-disk",
        type=ByteSize(),
        default="128MiB",
        show_default=True,
        envvar="PILOTHOUSE_RESERVE_DISK",
        show_envvar=True,
        help="Refuse request data while less is free below its SQLite file, so that config can "
        "always be written.",
    ),
)


def days_options(command: Command) -> Command:
    """`--keep-full-days`, `--keep-row-days` and `--keep-count-days`."""
    for option in reversed(_DAYS_OPTIONS):
        command = option(command)
    return command


def storage_options(command: Command) -> Command:
    """The same, `--max-request-data` and `--reserve-disk`."""
    for option in reversed(_SIZE_OPTIONS):
        command = option(command)
    return days_options(command)


def storage_arguments(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The same options for another process, from what `storage_options` passed to a command."""
    names = ("keep_full_days", "keep_row_days", "keep_count_days")
    arguments = [text for name in names for text in (_flag(name), f"{given[name]:g}")]
    arguments += ("--reserve-disk", str(given["reserve_disk"]))
    if given["max_request_data"] is not None:
        arguments += ("--max-request-data", str(given["max_request_data"]))
    return tuple(arguments)


def read_retention(given: Mapping[str, Any]) -> "Retention":
    """Raises click.UsageError when the times contradict each other."""
    # Imported here, because `serve` starts without SQLAlchemy.
    from controlplane.store.retention import Retention

    try:
        return Retention(
            full_days=given["keep_full_days"],
            row_days=given["keep_row_days"],
            count_days=given["keep_count_days"],
            max_bytes=given.get("max_request_data"),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def read_storage(given: Mapping[str, Any]) -> "StorageSettings":
    """From what `storage_options` passed to a command. Raises click.UsageError."""
    from controlplane.store.retention import StorageSettings

    return StorageSettings(retention=read_retention(given), reserve_bytes=given["reserve_disk"])


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
