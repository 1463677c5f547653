"""An environment for one foreign client: what it wants, pinned, and nothing of ours.

torch, where a client demands it, is lent from the environment that runs this: it is a gigabyte, and
clients that ask for it only load data with it.
"""

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_LENT = ("torch", "torchgen", "functorch")
_INSTALL_SECONDS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Made once, and kept."""

    folder: Path
    requirements: Sequence[str]
    without_dependencies: Sequence[str] = ()
    """Installed after the others, and nothing for them."""
    borrows_torch: bool = False

    @property
    def bin(self) -> Path:
        """Where its commands are."""
        return self.folder / "bin"

    def make(self) -> None:
        """Raises subprocess.CalledProcessError, after what pip said."""
        done = self.folder / "installed"
        wanted = "\n".join((*self.requirements, *self.without_dependencies))
        if done.exists() and done.read_text() == wanted:
            return
        subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        self._install(self.requirements)
        if self.without_dependencies:
            self._install(("--no-deps", *self.without_dependencies))
        if self.borrows_torch:
            self._borrow_torch()
        done.write_text(wanted)

    def _install(self, what: Sequence[str]) -> None:
        command = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", *what]
        subprocess.run(command, check=True, timeout=_INSTALL_SECONDS)

    def _borrow_torch(self) -> None:
        own = Path(sysconfig.get_path("purelib"))
        theirs = self.folder / own.relative_to(sys.prefix)
        for lent in (*(own / name for name in _LENT), *own.glob("torch-*.dist-info")):
            link = theirs / lent.name
            if lent.exists() and not link.exists():
                link.symlink_to(lent)
