"""A wall clock for one process that can be set while it runs."""

import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")


class NoCompilerError(Exception):
    """The few lines of C that stand between a process and its clock cannot be compiled."""


@dataclass(slots=True)
class WallClock:
    """Its files are in `folder`."""

    folder: Path

    def __post_init__(self) -> None:
        self._offset_path.write_bytes(struct.pack("=q", 0))
        compiler = shutil.which("cc")
        if compiler is None:
            raise NoCompilerError("there is no C compiler `cc`: apt-get install gcc libc6-dev")
        options = ("-shared", "-fPIC", "-O2", "-Wall", "-Werror")
        subprocess.run(
            [compiler, *options, "-o", str(self._library_path), str(_SOURCE)], check=True
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """Of the process that is to have it."""
        return {
            "LD_PRELOAD": str(self._library_path),
            "WALL_CLOCK_OFFSET_FILE": str(self._offset_path),
        }

    def set_off(self, seconds: int) -> None:
        """From now on it is so many seconds off the machine's."""
        with self._offset_path.open("r+b") as file:  # the same file, which the process has mapped
            file.write(struct.pack("=q", seconds))

    @property
    def _offset_path(self) -> Path:
        return self.folder / "wall-clock.offset"

    @property
    def _library_path(self) -> Path:
        return self.folder / "wall-clock.so"
