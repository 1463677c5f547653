"""What a trap is."""

from collections.abc import Callable

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument

Trap = Callable[[Argument, Activity], Confidence | None]
"""Says what speaks for it, and how sure it is; None and nothing said where it was not stepped
into."""
