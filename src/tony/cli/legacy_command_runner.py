"""Runner of the commands for LinkedIn TonY jobs: its flags, and two exit codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from tony.cli.remote_settings_file import copy_settings_file
from tony.cli.submission_signals import InterruptedBySignal
from tony.cli.terminal.output import explain, say_all
from tony.cli.terminal.terminal_text import find_columns
from tony.config.legacy.flags import FLAGS, parse
from tony.errors import TonyError

if TYPE_CHECKING:
    from tony.config.legacy.flags import Flags

#: Exit code -1 of LinkedIn TonY, as a shell sees it.
FAILED = 255
#: Width of the usage if standard output is no terminal.
_USAGE_COLUMNS = 120


class RawCommand(click.Command):
    """A command that parses its arguments itself: flags with one dash or two, some of which click would take."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments unparsed."""
        ctx.params["words"] = tuple(args)
        ctx.args = []
        return []


def run(name: str, about: str, words: Sequence[str], go: Callable[[Flags], int]) -> int:
    """Parse the flags and run the command; return 0 for a job that succeeded, else `FAILED`.

    Args:
        name, about: name and description for the usage.
        go: runs the command and returns the exit code of tony.
    """
    try:
        if set(words) & {"-h", "-help", "--help"}:
            _print_usage(name, about)
            return 0
        with copy_settings_file(parse(words)) as flags:
            return 0 if go(flags) == 0 else FAILED
    except InterruptedBySignal as ended:
        raise click.exceptions.Exit(128 + ended.number) from None
    except TonyError as error:
        explain(error)
        return FAILED


def _print_usage(name: str, about: str) -> None:
    width = find_columns() or _USAGE_COLUMNS
    page = click.HelpFormatter(width=width)
    page.write_usage(f"tony {name}", "[FLAGS]")
    page.write_paragraph()
    with page.indentation():
        page.write_text(about)
    page.write_paragraph()
    page.write_text("Flags, with one dash or two, as -flag value or --flag=value:")
    page.write_paragraph()
    with page.indentation():
        page.write_dl(
            [
                (
                    f"--{row.name} {row.argument}".rstrip(),
                    row.meaning + (" May be repeated." if row.repeated else ""),
                )
                for row in FLAGS
            ],
            col_max=width // 3,
        )
    say_all(page.getvalue().splitlines())
