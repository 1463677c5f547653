"""Processes that should not be, on a terminal."""

from collections.abc import Mapping, Sequence

from controlplane.cli.answers import StrayAnswer
from controlplane.cli.terminal import indented, instant, printable, table

_MEBIBYTE = 2**20


def stray_table(strays: Sequence[StrayAnswer], as_of_unix_ns: int) -> str:
    """One line for each, nothing where there are none. What is gone is told for an hour."""
    if not strays:
        return ""
    rows = [("KIND", "PID", "REPLICA", "TOKEN", "PORTS", "MEMORY", "DEVICES", "SEEN", "WHY")]
    for each in strays:
        process = each.process
        rows.append(
            (
                each.kind,
                "unknown" if process.pid is None else str(process.pid),
                process.replica_id,
                str(process.fencing_token),
                ", ".join(map(str, process.ports)) or "-",
                _size(process.resident_bytes),
                _size(process.device_bytes),
                _when(each, as_of_unix_ns),
                each.why if each.error is None else f"{each.why}; not ended: {each.error}",
            )
        )
    return f"\nProcesses that should not be:\n{indented(table(rows))}"


def unseen_strays(why_by_launcher: Mapping[str, str]) -> str:
    """Of launchers of which nobody knows whether they left any."""
    return "".join(
        f"\nWhether launcher {printable(name)} left processes is not known: {printable(why)}\n"
        for name, why in why_by_launcher.items()
    )


def _when(stray: StrayAnswer, as_of_unix_ns: int) -> str:
    if stray.ended_at_unix_ns is not None:
        return f"gone since {instant(stray.ended_at_unix_ns)}"
    return f"{max(0.0, (as_of_unix_ns - stray.seen_at_unix_ns) / 1e9):.0f} s ago"


def _size(num_bytes: int | None) -> str:
    return "unobservable" if num_bytes is None else f"{num_bytes / _MEBIBYTE:.0f} MiB"
