"""What pydantic says of input that does not fit, without the words it puts before ours."""

_PREFIXES = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}


def say_invalid(kind: str, message: str) -> str:
    """`type` and `msg` of one of pydantic's errors, as people are told: a validator's own words
    alone, where one of ours refused it."""
    return message.removeprefix(_PREFIXES.get(kind, ""))
