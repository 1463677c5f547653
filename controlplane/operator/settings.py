"""The operator's patience."""

from dataclasses import dataclass

DEFAULT_DRAIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """How long it waits for what, in seconds."""

    start_seconds: float = 600.0
    """A replica that does not serve by then has failed."""
    probe_seconds: float = 60.0
    silent_seconds: float = 20.0
    """A ready replica that took no step for so long is probed again."""
    silent_probe_seconds: float = 20.0
    """How long such a probe may take."""
    max_failed_probes: int = 2
    """So many of them failing in a row, with no step in between, mean that it hangs."""
    unreached_seconds: float = 5.0
    """An attached endpoint that no gateway reached for so long is told to be unreachable."""
    leave_seconds: float = 3.0
    """How long gateways get to stop sending to a replica before it is told to drain."""
    return_seconds: float = 15.0
    """How long gateways get to report to a control plane that took over from another one."""
    drain_seconds: float = DEFAULT_DRAIN_SECONDS
    """How long a replica may go on with what it is doing once it is told to drain."""
    ending_seconds: float = 7.0
    """What it gets on top for ending, before it is ended by force."""
    fresh_report_seconds: float = 5.0
    """A gateway that was silent for longer is not waited for."""

    stray_look_seconds: float = 5.0
    """How often launchers look for processes that should not be."""

    @property
    def force_seconds(self) -> float:
        """From the decision to end a replica until it is ended by force."""
        return self.leave_seconds + self.drain_seconds + self.ending_seconds
