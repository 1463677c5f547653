"""What the command line names and cannot be read."""


class InputError(ValueError):
    """Names the place, says what is wrong with it and what to do."""

    def __init__(self, place: str, what: str, remedy: str) -> None:
        self.place = place
        self.what = what
        self.remedy = remedy
        super().__init__(f"{place} {what}; {remedy}")
