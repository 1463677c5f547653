"""Which lines of a very long log are left for later, or out.

Two kinds of line make logs long: access lines, of which only the first and the last are kept
(`keeping`), and statistics, of which a series keeps so many at an even step (`growing`). To read
each of a million of them would take a minute for nothing.
"""

from collections import Counter, deque

from controlplane.diagnosis.sources.log.keeping import MOST_FIRST_EVENTS, MOST_LAST_EVENTS

MANY_STATISTICS = 20_000
"""All of so many lines of one form are read; of more, every second, then every third, and so on."""

_ACCESS = frozenset({"HTTP"})
_SPREAD = 2_654_435_761
"""Knuth's multiplier: it draws lines without falling into step with ranks that take turns."""
_RANGE = 1 << 16


class Thinning:
    """Decides line by line."""

    def __init__(self, many: int = MANY_STATISTICS) -> None:
        self._many = many
        self._seen: Counter[str] = Counter()
        self._access: deque[tuple[int, str]] = deque(maxlen=MOST_LAST_EVENTS)
        self._left_out: dict[str, tuple[int, str]] = {}
        self._num_left_out: Counter[str] = Counter()

    def takes(self, hit: frozenset[str], line: str, index: int) -> bool:
        """Whether a line, of whose words `hit` are known, is not to be read now."""
        if hit == _ACCESS:
            return self._takes_access(line, index)
        if "#running-req" in hit or "#new-seq" in hit:
            return self._takes_statistics("sglang", line, index)
        if "throughput" in hit and "Avg prompt throughput" in line:
            return self._takes_statistics("vllm", line, index)
        return False

    def rest(self) -> list[tuple[int, str]]:
        """Lines that are to be read in the end, in order: the last of each kind. Each once."""
        rest = sorted([*self._access, *self._left_out.values()])
        self._access.clear()
        self._left_out.clear()
        return rest

    @property
    def left_out(self) -> Counter[str]:
        """How many lines of each kind were not read and will not be."""
        return self._num_left_out

    def _takes_access(self, line: str, index: int) -> bool:
        self._seen["access"] += 1
        if self._seen["access"] <= MOST_FIRST_EVENTS:
            return False
        if len(self._access) == MOST_LAST_EVENTS:
            self._num_left_out["access lines"] += 1
        self._access.append((index, line))
        return True

    def _takes_statistics(self, form: str, line: str, index: int) -> bool:
        self._seen[form] += 1
        step = 1 + self._seen[form] // self._many
        if step == 1 or index * _SPREAD % (1 << 32) // _RANGE < _RANGE // step:
            if self._left_out.pop(form, None) is not None:
                self._num_left_out[f"statistics lines of {form}"] += 1
            return False
        if form in self._left_out:
            self._num_left_out[f"statistics lines of {form}"] += 1
        self._left_out[form] = (index, line)
        return True
