"""One rule that looks at its mechanism from several sides."""

from collections.abc import Callable

from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

Look = Callable[[Window], Verdict | None]


def surest_of(*looks: Look) -> Look:
    """What the surest of `looks` says of a window, the earlier one of two equally sure; None where
    none of them sees anything."""

    def judge(window: Window) -> Verdict | None:
        verdicts = [verdict for look in looks if (verdict := look(window)) is not None]
        return max(verdicts, key=lambda verdict: verdict.confidence, default=None)

    return judge
