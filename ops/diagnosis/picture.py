"""The confusion matrix as a picture: a row for each trial, a column for each answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from controlplane.diagnosis.mechanism import Mechanism
from ops.diagnosis.trials import Trial

_CELL, _LEFT, _TOP, _BOTTOM = 30, 190, 170, 44
_RIGHT_COLOUR, _WRONG_COLOUR, _QUIET_COLOUR = "#15803d", "#b91c1c", "#6b7280"
_QUIET = (Mechanism.HEALTHY.value, Mechanism.CANNOT_TELL.value)


def draw(
    rows: Mapping[str, Mapping[str, int]], trials: Sequence[Trial], path: Path, caption: str
) -> None:
    """Shares of a row; right answers green, wrong ones red, silence grey. Raises OSError."""
    shown = [trial for trial in trials if trial.name in rows]
    answers = _answers(rows, shown)
    width = _LEFT + _CELL * len(answers) + 20
    height = _TOP + _CELL * len(shown) + _BOTTOM
    parts = [_column(answer, index) for index, answer in enumerate(answers)]
    parts += [_row(trial, rows[trial.name], answers, index) for index, trial in enumerate(shown)]
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}"
        f'<text x="10" y="{height - 14}" fill="#374151">{escape(caption)}</text></svg>\n'
    )


def _answers(rows: Mapping[str, Mapping[str, int]], trials: Sequence[Trial]) -> list[str]:
    """In the order of the trials whose answers they are; then strangers; then silence."""
    right = [mechanism.value for trial in trials for mechanism in trial.right]
    given = {answer for row in rows.values() for answer in row}
    order = list(dict.fromkeys([*right, *sorted(given)]))
    loud = [answer for answer in order if answer in given and answer not in _QUIET]
    return [*loud, *_QUIET]


def _column(answer: str, index: int) -> str:
    x, y = _LEFT + _CELL * index + _CELL / 2 + 4, _TOP - 8
    return f'<text x="{x}" y="{y}" transform="rotate(-60 {x} {y})">{escape(answer)}</text>'


def _row(trial: Trial, row: Mapping[str, int], answers: Sequence[str], index: int) -> str:
    y = _TOP + _CELL * index
    total = sum(row.values())
    parts = [
        f'<text x="{_LEFT - 8}" y="{y + _CELL / 2 + 4}" text-anchor="end">'
        f"{escape(trial.name.replace('_', ' '))}</text>"
    ]
    for column, answer in enumerate(answers):
        x = _LEFT + _CELL * column
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="none" stroke="#e5e7eb"/>'
        )
        share = row.get(answer, 0) / total
        if share:
            parts.append(
                f'<rect x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_CELL - 2}" '
                f'fill="{_colour(trial, answer)}" fill-opacity="{0.15 + 0.85 * share:.2f}"/>'
                f'<text x="{x + _CELL / 2}" y="{y + _CELL / 2 + 4}" text-anchor="middle" '
                f'fill="{"#fff" if share > 0.4 else "#111827"}">{100 * share:.0f}</text>'
            )
    return "".join(parts)


def _colour(trial: Trial, answer: str) -> str:
    if answer in [mechanism.value for mechanism in trial.right]:
        return _RIGHT_COLOUR
    return _QUIET_COLOUR if answer in _QUIET else _WRONG_COLOUR
