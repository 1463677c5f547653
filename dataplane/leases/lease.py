"""A thing that is held and that ends with its holder, however that one ends."""

from collections.abc import Callable
from types import TracebackType
from typing import Self


class Lease:
    """Held until the `with` block ends, or until `release`. Twice is no error."""

    __slots__ = ("_give_back",)

    def __init__(self, give_back: Callable[[], None]) -> None:
        """`give_back` is called once."""
        self._give_back: Callable[[], None] | None = give_back

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    @property
    def is_held(self) -> bool:
        """Nobody released it yet."""
        return self._give_back is not None

    def release(self) -> None:
        """Give back what is held."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()
