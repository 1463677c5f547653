"""What can go wrong between a scheduler and who drives it."""


class SchedulerError(Exception):
    """Calls in an order or with arguments that cannot be right: a bug in the caller."""
