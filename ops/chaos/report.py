"""What came of the cases, as lines and as a table."""

from collections.abc import Iterator, Sequence

from ops.chaos.accounts import CaseAccounts
from ops.chaos.run import Verdict
from ops.chaos.trial import Outcome

_HEAD = (
    "| database | change | candidate | fault | when | ended | s | back s | load | calls | "
    "of candidate | excused | fewest replicas |"
)


def cells(verdicts: Sequence[Verdict]) -> str:
    """How many cases and calls there were."""
    num_cases = sum(len(each.outcomes) for each in verdicts)
    num_calls = sum(each.num_calls for each in verdicts)
    return f"{num_cases} cases with {num_calls} calls"


def lines(verdict: Verdict) -> Iterator[str]:
    """One for each case."""
    for outcome, accounts in verdict.outcomes:
        wrong = (*outcome.wrong, *accounts.wrong)
        back = "" if outcome.back_seconds is None else f", back in {outcome.back_seconds:.1f} s"
        yield (
            f"{verdict.database}: {outcome.case.told}: {outcome.state} in {outcome.seconds:.1f} s"
            f"{back}, load {outcome.load:.1f}, {accounts.num_calls} calls, "
            f"excused {dict(accounts.excused)}, at least {outcome.least_capacity} replicas"
            + (f" WRONG {'; '.join(wrong)}" if wrong else "")
        )


def render(verdicts: Sequence[Verdict], seconds: float, num_cores: int, command: str) -> str:
    """The whole as Markdown. `command`: that repeats it."""
    rows = [_row(v.database, *each) for v in verdicts for each in v.outcomes]
    wrong = [line for verdict in verdicts for line in verdict.all_wrong]
    recorded = sum(verdict.num_recorded for verdict in verdicts)
    told = "\n".join(f"- {line}" for line in wrong) or "Nothing was wrong."
    return f"""# Chaos at every step of a rollout

`{command}`:
{cells(verdicts)}, {recorded} of them on record, in {seconds:.0f} s on
{num_cores} cores. `back s`: from the abort until the last call that the candidate was sent; `load`:
processes that wanted to run, the mean of a minute; `excused`: calls that failed, and why they may.

{told}

{_HEAD}
{"|".join(["", *[" --- "] * (_HEAD.count("|") - 1), ""])}
{chr(10).join(rows)}
"""


def _row(database: str, outcome: Outcome, accounts: CaseAccounts) -> str:
    case = outcome.case
    excused = ", ".join(f"{count} {why}" for why, count in accounts.excused.items())
    back = "" if outcome.back_seconds is None else f"{outcome.back_seconds:.1f}"
    told = (
        database, case.changed, case.candidate, case.fault, case.moment, outcome.state,
        f"{outcome.seconds:.1f}", back, f"{outcome.load:.1f}", accounts.num_calls,
        accounts.num_of_candidate, excused or "0", outcome.least_capacity,
    )  # fmt: skip
    return "| " + " | ".join(str(each) for each in told) + " |"
