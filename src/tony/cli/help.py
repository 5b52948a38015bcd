"""Help pages that fit: click's own are never narrower than 50 columns."""

from __future__ import annotations

from collections.abc import Iterable

import click

from tony.cli.terminal_text import columns_of

#: Columns of click's narrowest page and its margin; narrower terminals are ours.
_CLICKS, _MARGIN = 50, 2
_NARROWEST = 16


class FittingFormatter(click.HelpFormatter):
    """A page that is as narrow as its terminal."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = columns_of()
        if width is None and columns is not None and columns < _CLICKS + _MARGIN:
            width = max(columns - _MARGIN, _NARROWEST)
        super().__init__(indent_increment, width, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Words and what they mean; on a narrow page a long word stands on a line of its own."""
        super().write_dl(rows, self.width // 3 if self.width < _CLICKS else col_max, col_spacing)


class FittingContext(click.Context):
    """Every command's."""

    formatter_class = FittingFormatter
