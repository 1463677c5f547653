"""Files that are replaced in one step, so that no reader sees half of one."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, is_private: bool = False) -> None:
    """Write `data` beside `path`, making its folder if needed, and move it there. A link stays,
    and where it leads is replaced; into a device or a pipe, which is nobody's to replace, the data
    is written. On an OSError what was there stays.

    `is_private`: only the owner may read it.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    whole = path.resolve() if path.is_symlink() else path
    whole.parent.mkdir(parents=True, exist_ok=True)
    scratch = whole.with_name(f".{whole.name}.{os.getpid()}")
    mode = 0o600 if is_private else 0o666
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(scratch, flags, mode), "wb") as file:
            file.write(data)
        scratch.replace(whole)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
