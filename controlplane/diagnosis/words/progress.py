"""That something does not go on."""

STUCK = r"oldest|stuck|no progress"
