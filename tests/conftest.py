"""What holds for every test."""

from hypothesis import settings

# A machine that is busy is slow and not wrong: no test here is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
