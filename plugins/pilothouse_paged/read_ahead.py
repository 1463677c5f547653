"""Files that are about to be read from one end to the other."""

import mmap
from pathlib import Path


def read_ahead(path: Path) -> None:
    """Ask the system to fetch the file, so that the first reads do not wait page by page."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        data.madvise(mmap.MADV_WILLNEED)
