"""That no token comes, as it is cited: only of a series that says so."""

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.argument import Argument
from dataplane.engine_metrics.signal import SignalKind


def cite_no_token(argument: Argument, tokens: Series | None) -> None:
    """`tokens` is a counter of them or their speed; nothing is cited of one that moves or shows an
    old speed."""
    if tokens is not None and _is_none(tokens):
        argument.series(tokens, "no token comes")


def _is_none(tokens: Series) -> bool:
    if tokens.signal.terms.kind is SignalKind.COUNTER:
        return tokens.increase == 0
    return tokens.last.value == 0
