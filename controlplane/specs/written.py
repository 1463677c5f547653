"""How a value is written in a document: said once, beside the type that reads it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """In the metadata of an annotated type; validation passes over it."""

    what: str
    """Such as: a duration, a number and a unit."""
    example: str
