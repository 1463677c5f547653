"""One picture of measured against predicted: shares of requests by latency, as SVG."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from ops.calibration.comparison import Comparison

_WIDTH, _HEIGHT = 420, 240
_LEFT, _TOP, _RIGHT, _BOTTOM = 48, 36, 16, 40
_MEASURED, _PREDICTED, _LINES = "#111827", "#c2410c", "#d1d5db"
_TITLES = {"light": "light load", "near": "near saturation"}


def draw(comparisons: Sequence[Comparison], path: Path, caption: str) -> None:
    """A row for each load, a column each for TTFT and TPOT. Raises OSError."""
    loads = list(dict.fromkeys(each.load for each in comparisons))
    parts = []
    for row, load in enumerate(loads):
        of_load = [each for each in comparisons if each.load == load]
        for column, name in enumerate(("ttfts", "tpots")):
            measured = [getattr(each.measured, name) for each in of_load]
            simulated = [getattr(one, name) for each in of_load for one in each.simulated]
            title = f"{name[:4].upper()}, {_TITLES.get(load, load)}"
            panel = _panel(title, _pool(measured), [_pool([one]) for one in simulated])
            parts.append(f'<g transform="translate({column * _WIDTH},{row * _HEIGHT})">{panel}</g>')
    width, height = 2 * _WIDTH, len(loads) * _HEIGHT + 28
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}"
        f'<text x="{_LEFT}" y="{height - 10}">'
        f'<tspan fill="{_MEASURED}">━ measured</tspan>'
        f'<tspan dx="16" fill="{_PREDICTED}">━ simulations</tspan>'
        f'<tspan dx="16" fill="#6b7280">{escape(caption)}</tspan></text></svg>\n'
    )


def _pool(runs: Sequence[Sequence[float]]) -> list[float]:
    return sorted(value for run in runs for value in run)


def _panel(title: str, measured: list[float], simulated: list[list[float]]) -> str:
    # One wild simulation must not squeeze all others.
    most = 1.1 * max([*measured[-1:], statistics.median(run[-1] for run in simulated if run)])
    lines = [f'<text x="{_LEFT}" y="20" font-weight="bold">{title}</text>']
    for share in (0.0, 0.5, 0.95):
        y = _y(share)
        lines.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{_LINES}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    lines += [
        f'<text x="{_x(value, most):.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
        f'text-anchor="middle">{value * 1e3:.0f} ms</text>'
        for value in _ticks(most)
    ]
    lines += [_curve(run, most, _PREDICTED, 1.0, 0.35) for run in simulated]
    lines.append(_curve(measured, most, _MEASURED, 2.0, 1.0))
    return "".join(lines)


def _ticks(most: float) -> list[float]:
    """Round values from 0 to `most`, four at most beside 0."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= most / 4.5)
    return [step * number for number in range(int(most / step) + 1)]


def _curve(ascending: list[float], most: float, colour: str, width: float, opacity: float) -> str:
    points = " ".join(
        f"{_x(value, most):.1f},{_y((rank + 1) / len(ascending)):.1f}"
        for rank, value in enumerate(ascending)
        if value <= most
    )
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" '
        f'stroke-opacity="{opacity}"/>'
    )


def _x(value: float, most: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / most


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)
