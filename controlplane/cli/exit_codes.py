"""What the command's exit codes mean: one table for code, help and scripts."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNUSABLE_STATE = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    NOT_ALLOWED = 6
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "failed, or the control plane refused",
    ExitCode.USAGE: "the command line or a document is wrong; nothing was changed",
    ExitCode.UNUSABLE_STATE: "a database cannot be used as it is (pilothouse db upgrade)",
    ExitCode.NOT_FOUND: "what was named does not exist",
    ExitCode.UNREACHABLE: "no Pilothouse control plane, or no engine's metrics, at the URL",
    ExitCode.NOT_ALLOWED: "the key is missing or wrong, or its role may not do this",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}


def exit_code_of_status(status_code: int) -> ExitCode:
    """How a command ends that was answered with this HTTP status, which is no success."""
    match status_code:
        case 401 | 403:
            return ExitCode.NOT_ALLOWED
        case 404 | 410:
            return ExitCode.NOT_FOUND
        case 400 | 422:
            return ExitCode.USAGE
        case _:
            return ExitCode.FAILED


def exit_code_table() -> str:
    """The table as help shows it; the mark keeps click from joining its lines."""
    lines = (f"  {code.value}  {meaning}" for code, meaning in MEANINGS.items())
    return "\b\nExit codes:\n" + "\n".join(lines)
