"""The smallest random case that fails as another one does: what can be left out is left out."""

from collections.abc import Callable
from dataclasses import replace

from ops.endurance.random_case import RandomCase

FailureOf = Callable[[RandomCase], Exception | None]
"""Runs a case; None where it holds."""


def shrink(case: RandomCase, error: Exception, failure_of: FailureOf) -> RandomCase:
    """`case` without each part that its failure does not need, one after the other. It fails with
    an error of the same type, said in the same place."""
    for part in case.parts():
        smaller = replace(case, without=case.without | {part})
        found = failure_of(smaller)
        if found is not None and place_of(found) == place_of(error):
            case = smaller
    return case


def place_of(error: Exception) -> tuple[str, str, int]:
    """Its type, and the innermost file and line of its traceback."""
    traceback, frame = error.__traceback__, ("", 0)
    while traceback is not None:
        frame = (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return type(error).__name__, *frame
