"""Rules that may fail: what one raises is counted and shown, and hides nothing of the others."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import structlog

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

_MAX_ERROR = 400
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFault:
    """What came of a rule that failed."""

    rule_id: str
    error: str
    num_times: int


class RuleGuard:
    """Stands around each rule. One thread judges, others may read `faults`."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(replace(rule, judge=partial(self._judge, rule)) for rule in rules)
        """The same, which raise nothing."""
        self.failed_now: list[str] = []
        """Ids of those that failed since `begin`."""
        self._faults: dict[str, RuleFault] = {}

    @property
    def faults(self) -> list[RuleFault]:
        """All that there were, the last of each rule."""
        return sorted(self._faults.values(), key=lambda fault: fault.rule_id)

    def begin(self) -> None:
        """Another window."""
        self.failed_now = []

    def _judge(self, rule: Rule, window: Window) -> Verdict | None:
        try:
            return rule.judge(window)
        # Somebody else's code, on data that nobody foresaw: no kind of error may end the others.
        except Exception as error:  # noqa: BLE001
            self._note(rule.id, f"{type(error).__name__}: {error}"[:_MAX_ERROR])
            return None

    def _note(self, rule_id: str, error: str) -> None:
        self.failed_now.append(rule_id)
        before = self._faults.get(rule_id)
        if before is None or before.error != error:
            _log.error("a rule of diagnosis failed", rule=rule_id, error=error, exc_info=True)
        num_times = 1 if before is None else before.num_times + 1
        self._faults[rule_id] = RuleFault(rule_id=rule_id, error=error, num_times=num_times)
