"""How long a gateway waits for a client that reads nothing: a pure rule.

It looks once a window, from when a write began, for as long as the kernel has not taken all of it.
A client that took no byte in a whole window counts as gone; one that took any has another window::

    write begins     reads ... last byte taken          counts as gone
    |--------- window ---------|--------- window ---------|
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WritePatience:
    """Windows of so many seconds."""

    window_seconds: float

    @property
    def why_gone(self) -> str:
        """The reason, in words."""
        return f"the client read nothing for {self.window_seconds:g} s"

    def is_gone(self, num_unsent_before: int, num_unsent: int) -> bool:
        """At the end of a window, with what the kernel had not taken at its ends."""
        return num_unsent >= num_unsent_before

    def gone_at(self, began: float, last_read_at: float) -> float:
        """When a client counts as gone that reads without a pause until `last_read_at` and nothing
        from then on; `began` is when the write began that it never takes whole."""
        num_windows_with_reads = max(0, math.ceil((last_read_at - began) / self.window_seconds))
        return began + (num_windows_with_reads + 1) * self.window_seconds
