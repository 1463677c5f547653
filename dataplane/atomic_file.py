"""Files that are replaced in one step, so that no reader sees half of one."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, making its folder if needed, and move it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(path)
