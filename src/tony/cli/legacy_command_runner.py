"""Runner of the commands for LinkedIn TonY jobs: its flags, and two exit codes."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tony.cli.options import home
from tony.cli.submission_signals import InterruptedBySignal
from tony.cli.terminal.output import explain, say_all
from tony.cli.terminal.terminal_text import find_columns
from tony.config.files.file_reader import MAX_FILE
from tony.config.legacy.flags import FLAGS, parse
from tony.errors import ConfigError, Problem, TonyError
from tony.model.hdfs_uri import is_address, normalize_hdfs_uri
from tony.storage.hdfs.hdfs_discovery import find_hdfs
from tony.storage.hdfs.hdfs_remote_files import HdfsFiles
from tony.storage.staging.remote_files_interface import RemoteFile

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


@contextlib.contextmanager
def copy_settings_file(flags: Flags) -> Iterator[Flags]:
    """Yield the flags with a temporary local copy of a remote settings file.

    Raises:
        ConfigError: the file does not exist, cannot be read, or is too large.
    """
    name = flags.conf_file
    if name is None or not is_address(name) or name.startswith("file:"):
        yield flags
        return
    try:
        data = _read(normalize_hdfs_uri(name))
    except (TonyError, ValueError) as error:
        raise ConfigError([Problem(key="--conf_file", value=name, message=str(error))]) from error
    with tempfile.TemporaryDirectory(prefix="tony-") as folder:
        path = Path(folder, "tony.xml")
        path.write_bytes(data)
        yield replace(flags, conf_file=str(path), conf_name=name)


def _read(address: str) -> bytes:
    files = HdfsFiles(find_hdfs(home(), {}))
    try:
        found = files.stat(address)
        if not isinstance(found, RemoteFile):
            raise ValueError("this is a folder, not a file.")
        if found.size > MAX_FILE:
            raise ValueError(f"it is larger than {MAX_FILE} bytes, so it is probably not a settings file.")
        with files.open(found) as stream:
            return b"".join(iter(lambda: stream.read(1 << 16), b""))
    finally:
        files.close()
