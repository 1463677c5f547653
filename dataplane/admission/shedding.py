"""Who gives way when there is too much. Pure.

A policy names classes in the order in which they go. One of them is refused while a class that
goes later, or never, cannot wait within its bounds; and those of it that wait leave, first named
first, where that lets a request of such a class wait.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.admission.load_signals import QueueLoad
from dataplane.admission.wait_estimate import explain_deadline, find_late_wait
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """A class that cannot wait within its bounds, and why, in words."""

    class_name: str
    reason: str


def goes_before(terms: AdmissionPolicyTerms, class_name: str) -> Sequence[str]:
    """The classes that give way to `class_name`, first to go first."""
    order = terms.overload.shed if terms.overload else ()
    return order[: order.index(class_name)] if class_name in order else order


def find_pressure(
    terms: AdmissionPolicyTerms, request_class: ClassPolicy, load: QueueLoad
) -> Pressure | None:
    """A class to which this one gives way, and that cannot wait within its bounds; or None."""
    order = terms.overload.shed if terms.overload else ()
    if request_class.name not in order:
        return None
    later = order[: order.index(request_class.name) + 1]
    for other in terms.classes:
        num_waiting = load.num_waiting_by_class.get(other.name, 0)
        if not num_waiting or other.name in later:
            continue
        if num_waiting >= other.max_queue:
            return Pressure(
                class_name=other.name,
                reason=f"{num_waiting} of class {other.name} are waiting, as many as may",
            )
        expected = find_late_wait(terms.classes, other, load, is_other=True)
        if expected is not None:
            return Pressure(
                class_name=other.name,
                reason=(
                    f"class {other.name} would wait {expected}, and "
                    f"{explain_deadline(other, load, is_other=True)}"
                ),
            )
    return None
