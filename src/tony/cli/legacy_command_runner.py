"""What the commands for LinkedIn TonY jobs share: its flags, and two exit codes."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click

from tony.cli.options import home
from tony.cli.submission_signals import InterruptedBySignal
from tony.cli.terminal.output import explain
from tony.config.files.file_reader import MAX_FILE
from tony.config.legacy.flags import FLAGS, Flags, parse
from tony.errors import ConfigError, Problem, TonyError
from tony.model.hdfs_uri import is_address, normalize_hdfs_uri
from tony.storage.hdfs.hdfs_clients import find_hdfs
from tony.storage.hdfs.hdfs_remote_files import HdfsFiles
from tony.storage.staging.remote_files_interface import RemoteFile

#: Exit code -1 of LinkedIn TonY, as a shell sees it.
FAILED = 255
_HELP = {"-h", "-help", "--help"}


class LegacyCommand(click.Command):
    """A command that parses its arguments itself: flags with one dash or two, some of which click would take."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments unparsed; print the help if one of them asks for it."""
        if _HELP & set(args):
            click.echo(ctx.get_help())
            ctx.exit()
        ctx.params["words"] = tuple(args)
        ctx.args = []
        return []

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage line."""
        formatter.write_usage(ctx.command_path, "[FLAGS]")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List LinkedIn TonY's flags."""
        with formatter.section("Flags, with one dash or two, as -flag value or --flag=value"):
            formatter.write_dl(
                [
                    (f"--{row.name} {row.argument}".rstrip(), row.meaning + (" May be repeated." * row.repeated))
                    for row in FLAGS
                ]
            )


def legacy_command(name: str) -> Callable[[Callable[[Flags], int]], click.Command]:
    """Turn a function of the flags, which returns tony's exit code, into a command.

    It exits with 0 for a job that succeeded, with 128 and the number of a signal, else with `FAILED`.
    """

    def decorate(function: Callable[[Flags], int]) -> click.Command:
        def run(words: tuple[str, ...]) -> int:
            try:
                with copy_settings_file(parse(words)) as flags:
                    return 0 if function(flags) == 0 else FAILED
            except InterruptedBySignal as ended:
                raise click.exceptions.Exit(128 + ended.number) from None
            except TonyError as error:
                explain(error)
                return FAILED

        return LegacyCommand(name, callback=run, help=function.__doc__, add_help_option=False)

    return decorate


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
