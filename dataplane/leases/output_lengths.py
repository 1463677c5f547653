"""What the requests of one deployment really generated, by class: what the next may generate."""

from dataclasses import dataclass

from dataplane.leases.length_sketch import LengthSketch

MIN_KNOWN = 32
"""Answers of a class before its lengths count as known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedOutput:
    """Tokens that one answer is expected to have, and where that comes from."""

    num_tokens: int
    reason: str
    is_known: bool
    """False: too few of its class have ended, and this is the most that it may generate."""


class OutputLengths:
    """One deployment. Classes come from its policy, so that they are few."""

    def __init__(self) -> None:
        self._sketches: dict[str, LengthSketch] = {}

    def note(self, request_class: str, num_output_tokens: int) -> None:
        """One answer has ended, with so many tokens."""
        sketch = self._sketches.get(request_class)
        if sketch is None:
            sketch = self._sketches[request_class] = LengthSketch()
        sketch.add(num_output_tokens)

    def expect(self, request_class: str, quantile: float, at_most: int) -> ExpectedOutput:
        """By that quantile of what the class generated, and never more than `at_most`."""
        sketch = self._sketches.get(request_class)
        num_known = 0 if sketch is None else sketch.num_added
        length = None if sketch is None or num_known < MIN_KNOWN else sketch.quantile(quantile)
        if length is None:
            why = f"{num_known} of class {request_class} have ended, {MIN_KNOWN} tell: the maximum"
            return ExpectedOutput(num_tokens=at_most, reason=why, is_known=False)
        return ExpectedOutput(
            num_tokens=min(length, at_most),
            reason=f"quantile {quantile:g} of class {request_class}: {length} tokens",
            is_known=True,
        )
