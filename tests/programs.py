"""Programs of others that tests start."""

import shutil
import sys
from pathlib import Path


def find_program(name: str) -> str:
    """Beside the interpreter, where the set-up of the tests puts it, or on the PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found is not None, f"{name} is missing: run `make install-test`, which fetches it"
    return found
