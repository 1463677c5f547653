"""No word of a table is lost, however wide the terminal is."""

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controlplane.cli.fitted_table import fitted, print_table

_ROWS = [
    ("chat", "interactive", "ttft <= 300 ms", "insufficient data", "99 %", "-1900.0 %", ""),
    ("chat", "interactive", "availability", "ok", "99.9 %", "100.0 %", "page_quick"),
]
_NAMES = ("deployment", "class", "objective", "state", "promised", "budget left", "fires")


def _table() -> Table:
    table = Table(box=None, pad_edge=False)
    for name in _NAMES:
        table.add_column(name, no_wrap=name in ("promised", "budget left"))
    for row in _ROWS:
        table.add_row(*row)
    return table


def _shown(table: Table, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, markup=False).print(fitted(table, width))
    return out.getvalue()


@pytest.mark.parametrize("width", [26, 30, 40, 60, 70, 80, 90, 120, 300])
def test_every_word_is_whole_and_no_line_is_too_long(width: int) -> None:
    shown = _shown(_table(), width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    words = set(shown.split())
    assert {word for row in _ROWS for cell in row for word in cell.split()} <= words
    assert {word for name in _NAMES for word in name.split()} <= words


def test_what_fits_between_words_stays_a_table_and_the_rest_is_stacked() -> None:
    assert len(_shown(_table(), 300).splitlines()) == 1 + len(_ROWS)
    assert _shown(_table(), 90).split()[:2] == ["deployment", "class"]
    assert _shown(_table(), 50).split()[:4] == ["deployment", "chat", "class", "interactive"]


def test_a_stacked_row_says_nothing_of_what_it_has_not() -> None:
    first, _, second = _shown(_table(), 50).partition("\n\n")
    assert "fires" not in first
    assert "page_quick" in second


def test_only_a_column_that_says_so_is_cut() -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("request", no_wrap=True)
    table.add_column("tenant", overflow="ellipsis", min_width=4)
    table.add_row("0123456789", Text("a tenant with a very long name", no_wrap=True))
    lines = _shown(table, 24).splitlines()
    assert lines[1].startswith("0123456789  a tenant")
    assert lines[1].endswith("…")


def test_a_pipe_gets_the_whole_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table(box=None, pad_edge=False)
    for name in ("tenant", "class"):
        table.add_column(name, overflow="ellipsis", min_width=4)
    table.add_row(*(Text(letter * 150, no_wrap=True) for letter in "tc"))
    print_table(table)
    assert capsys.readouterr().out.splitlines()[1].split() == ["t" * 150, "c" * 150]
