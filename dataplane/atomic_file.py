"""Files that are replaced in one step, so that no reader sees half of one."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, is_private: bool = False) -> None:
    """Write `data` beside `path`, making its folder if needed, and move it there.

    `is_private`: only the owner may read it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    mode = 0o600 if is_private else 0o666
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(scratch, flags, mode), "wb") as file:
        file.write(data)
    scratch.replace(path)
