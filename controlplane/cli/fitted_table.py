"""Tables that lose no word: whole in a pipe, narrowed between words on a terminal, and where that
is not enough, row under row. Only columns that may wrap and have a `min_width` are cut, to that.
"""

import os
import sys
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from controlplane.cli.terminal import create_console


def print_table(table: Table) -> None:
    """On standard output: as it fits on the terminal (or in COLUMNS), and whole into a pipe."""
    console = create_console()
    if not (sys.stdout.isatty() or "COLUMNS" in os.environ):
        console.width = max(console.width, _full_width(table))
    console.print(fitted(table, console.width))


def fitted(table: Table, width: int) -> RenderableType:
    """The same content in `width` columns of characters. It sets widths of `table`."""
    widths = _column_widths(table, width)
    if widths is None:
        return Group(*_stacked(table))
    for column, each in zip(table.columns, widths, strict=True):
        column.width = each
    return table


def _full_width(table: Table) -> int:
    return sum(map(_natural_width, table.columns)) + _between(table)


def _column_widths(table: Table, width: int) -> list[int] | None:
    """The widest first gives way, none below what its words need; None: they do not fit."""
    widths = [_natural_width(column) for column in table.columns]
    least = [_least_width(column) for column in table.columns]
    room = width - _between(table)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        loose = [index for index, each in enumerate(widths) if each > least[index]]
        widths[max(loose, key=widths.__getitem__)] -= 1
    return widths


def _between(table: Table) -> int:
    """What padding takes, of a table without a box and without padding at its edges."""
    _, right, _, left = table.padding
    return (right + left) * max(0, len(table.columns) - 1)


def _natural_width(column: Column) -> int:
    return max(text.cell_len for text in _texts(column))


def _least_width(column: Column) -> int:
    if column.min_width is not None and not column.no_wrap:
        return min(_natural_width(column), column.min_width)
    return max(
        text.cell_len if column.no_wrap or text.no_wrap else _longest_word(text)
        for text in _texts(column)
    )


def _longest_word(text: Text) -> int:
    return max((Text(word).cell_len for word in text.plain.split()), default=0)


def _texts(column: Column) -> Iterable[Text]:
    return (_text(each) for each in (column.header, *column.cells))


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _stacked(table: Table) -> Iterable[RenderableType]:
    """A block of `name  value` lines for each row; a row says nothing of what it has not."""
    names = [_text(column.header).plain for column in table.columns]
    rows: Iterable[Sequence[RenderableType]] = zip(
        *(column.cells for column in table.columns), strict=True
    )
    for index, (row, cells) in enumerate(zip(table.rows, rows, strict=True)):
        block = Table.grid(padding=(0, 2, 0, 0))
        block.add_column(no_wrap=True, style="dim")
        block.add_column(overflow="fold", style=row.style)
        for name, cell in zip(names, map(_text, cells), strict=True):
            if cell.plain:
                block.add_row(name, Text(cell.plain))
        if index:
            yield Text()
        yield block
