"""A plan as the control plane answers it."""

from dataclasses import dataclass
from typing import Any

from controlplane.cli.answers import ProblemAnswer
from controlplane.cli.client import convert_answer, post_json
from controlplane.cli.local_check import told_problems
from controlplane.rollouts.change_plan.change_plan import ChangePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer:
    """What applying the files would do."""

    plan: ChangePlan
    has_changes: bool
    warnings: list[ProblemAnswer]


def ask_for_plan(url: str, texts: list[tuple[str, str]]) -> Any:
    """Ends the command with every problem that the control plane finds in the files."""
    body = {"files": [{"name": name, "text": text} for name, text in texts]}
    with told_problems(url):
        return post_json(url, "/api/v1/plan", body)


def convert_plan(url: str, answer: Any) -> PlanAnswer:
    """Raises UnreachableError for an answer of another shape."""
    return convert_answer(url, answer, PlanAnswer)
