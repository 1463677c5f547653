"""Several looks at one mechanism say one thing."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.looks import Look, first_of, look_of, surest_of
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.truth import Truth
from controlplane.diagnosis.window import Window

NOTHING = Window(start=0, end=60)


def _says(confidence: Confidence, detail: str) -> Look:
    return lambda window: Verdict(confidence=confidence, evidence=(), detail=detail)


def _sees_nothing(window: Window) -> Verdict | None:
    return None


LIKELY = _says(Confidence.LIKELY, "likely")
SURE = _says(Confidence.CERTAIN, "sure")


def _detail(look: Look) -> str | None:
    verdict = look(NOTHING)
    return None if verdict is None else verdict.detail


def test_the_surest_speaks_and_of_two_the_earlier() -> None:
    assert _detail(surest_of(_sees_nothing, LIKELY, SURE)) == "sure"
    assert _detail(surest_of(_says(Confidence.LIKELY, "first"), LIKELY)) == "first"
    assert _detail(surest_of(_sees_nothing)) is None


def test_the_first_that_sees_anything_speaks_however_sure_a_later_one_is() -> None:
    assert _detail(first_of(_sees_nothing, LIKELY, SURE)) == "likely"
    assert _detail(first_of(_sees_nothing)) is None


def test_what_is_weighed_is_added_only_where_something_is_seen() -> None:
    weighed: list[bool] = []

    def seen(argument: Argument, now: Activity, truth: Truth) -> Confidence:
        return Confidence.LIKELY

    def unseen(argument: Argument, now: Activity, truth: Truth) -> None:
        return None

    def weigh(argument: Argument, now: Activity) -> None:
        weighed.append(True)

    assert _detail(look_of(unseen, "nothing", weigh)) is None
    assert weighed == []
    assert _detail(look_of(seen, "seats", weigh)) == "seats"
    assert weighed == [True]
