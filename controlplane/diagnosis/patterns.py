"""Regular expressions of the rules, each compiled once."""

import re
from functools import lru_cache


@lru_cache(maxsize=8192)
def compiled(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """As `re.compile`, which keeps 512 and forgets the oldest: the rules have more, one after the
    other, so that every look compiled all of them again."""
    return re.compile(pattern, flags)
