"""The file that `pilothouse plan --save` writes: the documents, what they would do, and what that
rests on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.output_file import check_folder, write_file
from controlplane.rollouts.change_plan.change_plan import ChangePlan, PlannedApply

_FORMAT = "pilothouse plan"
_VERSION = 1


class PlanFileError(click.ClickException):
    """A file that is no plan; nothing was applied."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """One saved plan."""

    format: str
    version: int
    files: list[tuple[str, str]]
    """Name and text, as they were planned."""
    plan: ChangePlan

    @property
    def body(self) -> dict[str, Any]:
        """What has to be found, and to come of it."""
        planned = PlannedApply(
            world=self.plan.world,
            results={
                each.key: f"{each.after.rpartition('@')[2]} {each.digest}"
                for each in self.plan.documents
            },
        )
        found: dict[str, Any] = msgspec.to_builtins(planned)
        return found


def write_plan(path: Path, texts: list[tuple[str, str]], plan: ChangePlan) -> None:
    """Whole or not at all. Raises a ClickException where it cannot be written."""
    check_folder(path)
    saved = PlanFile(format=_FORMAT, version=_VERSION, files=texts, plan=plan)
    write_file(path, json.dumps(msgspec.to_builtins(saved), indent=1) + "\n")


def read_plan(path: Path) -> PlanFile:
    """Raises PlanFileError."""
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=PlanFile)
    except OSError as error:
        raise PlanFileError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PlanFileError(
            f"{path} is no plan of this version ({error}): make one with `pilothouse plan -f ... "
            f"--save {path}`"
        ) from error
    if (saved.format, saved.version) != (_FORMAT, _VERSION):
        raise PlanFileError(f"{path} is a plan of another version of Pilothouse: plan again")
    return saved
