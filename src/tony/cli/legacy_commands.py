"""What the commands of the original have in common: their flags as they were, and two exit codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from tony.cli.early import InterruptedBySignal
from tony.cli.output import explain, say_all
from tony.cli.terminal_text import columns_of
from tony.errors import TonyError

if TYPE_CHECKING:
    from tony.config.legacy.flags import Flags

#: What the original's -1 becomes.
FAILED = 255
#: Columns of a usage that nobody looks at on a terminal.
_WIDE = 120


class RawCommand(click.Command):
    """A command that reads its own words, with one dash or two; click would take some of them for its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leaves them as they are."""
        ctx.params["words"] = tuple(args)
        ctx.args = []
        return []


def run(name: str, about: str, words: Sequence[str], go: Callable[[Flags], int]) -> int:
    """Reads the flags and goes on; answers 0 for a job that succeeded, and else `FAILED`.

    Args:
        name, about: of the command, for its usage.
        go: answers our exit code.
    """
    from tony.cli.remote_settings_file import settings_here
    from tony.config.legacy.flags import parse

    try:
        if set(words) & {"-h", "-help", "--help"}:
            _tell_usage(name, about)
            return 0
        with settings_here(parse(words)) as flags:
            return 0 if go(flags) == 0 else FAILED
    except InterruptedBySignal as ended:
        raise click.exceptions.Exit(128 + ended.number) from None
    except TonyError as error:
        explain(error)
        return FAILED


def _tell_usage(name: str, about: str) -> None:
    from tony.config.legacy.flags import FLAGS

    width = columns_of() or _WIDE
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
                    row.meaning + (" May be given again." if row.repeated else ""),
                )
                for row in FLAGS
            ],
            col_max=width // 3,
        )
    say_all(page.getvalue().splitlines())
