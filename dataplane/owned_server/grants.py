"""What the operator of a machine lets config start there.

Config is written by people who may deploy a model, and a server runs as the user of the control
plane. So what config names is looked up in two variables of the control plane's own environment,
which nobody can set from outside:

    ENGINE_PROGRAMS=/opt/vllm/bin/vllm:sglang=/opt/sglang/bin/python
    ENGINE_OPTIONS=--enable-lora,VLLM_USE_V2_MODEL_RUNNER

Without them a server's usual program is taken from the folders of PATH, which is as much the
operator's own, and only options that can do no harm are passed on.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

PROGRAMS_VARIABLE = "ENGINE_PROGRAMS"
"""Of the control plane's environment: absolute paths of programs with `:` between them, each with
the name that config says, as name=path; without one it is called as its file is."""
OPTIONS_VARIABLE = "ENGINE_OPTIONS"
"""Of the control plane's environment: arguments and environment variables, with commas between
them, that config may give to servers beside those that an adapter knows to be harmless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Of one machine."""

    programs: Mapping[str, str] = field(default_factory=dict)
    """Absolute paths by name."""
    options: frozenset[str] = frozenset()
    path: str = ""
    """PATH, where a usual program is looked for that `programs` does not name."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Raises ValueError naming the variable and the entry that cannot be used."""
        entries = environment.get(PROGRAMS_VARIABLE, "").split(":")
        options = environment.get(OPTIONS_VARIABLE, "").split(",")
        return cls(
            programs=dict(_program(entry.strip()) for entry in entries if entry.strip()),
            options=frozenset(option.strip() for option in options if option.strip()),
            path=environment.get("PATH", ""),
        )

    def find_named(self, named: str) -> str | None:
        """The program that config names, by its name or by the very path that is granted."""
        if named in self.programs.values():
            return named
        return self.programs.get(named)

    def find_usual(self, usual: str) -> str | None:
        """The program of that name: granted, or in an absolute folder of PATH."""
        folders = [folder for folder in self.path.split(os.pathsep) if Path(folder).is_absolute()]
        return self.programs.get(usual) or shutil.which(usual, path=os.pathsep.join(folders))


def _program(entry: str) -> tuple[str, str]:
    name, _, path = entry.rpartition("=")
    if not Path(path).is_absolute():
        raise ValueError(
            f"{PROGRAMS_VARIABLE} in the control plane's environment has {entry!r}, which is no "
            f"absolute path: write /folder/program or name=/folder/program, with : between them"
        )
    return name or Path(path).name, path
