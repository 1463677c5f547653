"""How much of what is expected of requests they really take: learned from those that ended."""

_NEWEST_SHARE = 0.1
"""Of the newest, once some are known; until then all count alike."""


class TakenShare:
    """Starts with `value`, as if that had been seen `num_known` times."""

    __slots__ = ("_num_known", "value")

    def __init__(self, value: float = 1.0, num_known: int = 0) -> None:
        self.value = value
        self._num_known = num_known

    def learn(self, value: float) -> None:
        """One request took that share."""
        self._num_known += 1
        self.value += max(_NEWEST_SHARE, 1 / self._num_known) * (value - self.value)
