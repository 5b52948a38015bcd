"""Base classes of all commands: help that fits narrow terminals, and groups that suggest a name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from tony.cli.terminal.terminal_text import find_columns
from tony.name_suggestions import find_closest_match

#: Columns below which click does not narrow its help.
_CLICK_MIN_COLUMNS = 50
_MARGIN_COLUMNS = 2
_MIN_COLUMNS = 16


class FittingFormatter(click.HelpFormatter):
    """Help as narrow as the terminal; click's own is never narrower than 50 columns."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = find_columns()
        if width is None and columns is not None and columns < _CLICK_MIN_COLUMNS + _MARGIN_COLUMNS:
            width = max(columns - _MARGIN_COLUMNS, _MIN_COLUMNS)
        super().__init__(indent_increment, width, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write terms and their meanings; on a narrow terminal a long term gets a line of its own."""
        super().write_dl(rows, self.width // 3 if self.width < _CLICK_MIN_COLUMNS else col_max, col_spacing)


class FittingContext(click.Context):
    """The context of every command."""

    formatter_class = FittingFormatter


class FittingCommand(click.Command):
    """A command of a group."""

    context_class = FittingContext


class CommandGroup(click.Group):
    """A group of commands that suggests the nearest one for an unknown name, with every supported click release."""

    context_class = FittingContext
    command_class = FittingCommand
    #: Unknown name -> the command to suggest, where it is not similar.
    suggestions: Mapping[str, str] = {}

    def list_known_names(self, ctx: click.Context) -> list[str]:
        """Return the names that may be suggested."""
        return self.list_commands(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does; fail with the nearest name if there is none of this name."""
        name = args[0] if args else ""
        names = self.list_known_names(ctx)
        if args and not name.startswith("-") and name not in names:
            near = self.suggestions.get(name) or find_closest_match(name, names)
            hint = f"; did you mean {near!r}?" if near else ""
            ctx.fail(f"no such command {name!r}{hint}")
        return super().resolve_command(ctx, args)
