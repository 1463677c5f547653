"""How much of what somebody names is read and held.

What is named may be anything: a device, a whole disk, a small file that unpacks to a huge one, a
log of a year. None of them is to take the memory or the night of who asks.
"""

MOST_OF_PAGE = 16 << 20
"""Bytes of one metrics page. The largest pages of engines with many ranks and adapters have some
2 MiB."""
MOST_OF_PAGES = 64 << 20
"""Characters of all metrics pages of one file."""
MOST_OF_ALL_PAGES = 256 << 20
"""Of all that are named."""
MOST_SCRAPES = 10_000
"""In one file: nearly three hours of one a second."""
MOST_ENGINES = 8000
"""On one page: some ten seconds of work."""
NEWEST_OF_LOG = 32 << 20
"""Bytes of a log that are read, its newest; some seconds of work."""
MOST_UNPACKED = 4 << 30
"""Bytes that are unpacked for the newest of them."""
MOST_FILES = 2000
"""In a folder and those below it."""
MOST_FOLDERS = 10_000
MOST_OF_FOLDER = 1 << 30
"""Bytes that would be read of them."""
