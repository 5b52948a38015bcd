"""`tony cluster-submit`, `tony local-submit`, `tony notebook-submit`: the commands of LinkedIn TonY.

They take its flags, and have its two exit codes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tony.cli.options import home
from tony.cli.submission import submit_and_follow
from tony.cli.submission_signals import clean_exit_on_signals
from tony.cli.terminal.display import format_ssh_hint
from tony.cli.terminal.output import explain, warn
from tony.client.port_forward import open_proxy
from tony.config.files.file_reader import MAX_FILE
from tony.config.legacy import CLUSTER_CONF, TO_CLUSTER
from tony.config.legacy.flags import FLAGS, Flags, parse
from tony.config.load import load
from tony.errors import ConfigError, Problem, TonyError, UserError
from tony.history.job_record import record_of
from tony.jobs.tunnel_client import is_answering
from tony.model.hdfs_uri import is_address, normalize_hdfs_uri
from tony.retry import Backoff
from tony.storage.hdfs.hdfs_clients import find_hdfs
from tony.storage.hdfs.hdfs_remote_files import HdfsFiles
from tony.storage.staging.remote_files_interface import RemoteFile

if TYPE_CHECKING:
    from tony.jobs.job_follower import Viewer
    from tony.model.state_directory import Home

#: Exit code -1 of LinkedIn TonY, as a shell sees it.
FAILED = 255
#: As many as the cluster of LinkedIn TonY's LocalSubmitter.
_NODE_COUNT = 2
#: Default of job_timeout of a notebook.
_DEFAULT_JOB_TIMEOUT = "24h"
#: Between two attempts to connect to a notebook.
_BACKOFF = Backoff(first=0.1, factor=1.3, most=1.0)
_HELP = {"-h", "-help", "--help"}


class LegacyCommand(click.Command):
    """A command that parses its arguments itself: flags with one dash or two, some of which click would take."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments unparsed; print the help if one of them asks for it."""
        if _HELP & set(args) and not ctx.resilient_parsing:  # not for shell completion
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
        with formatter.section("Flags (also with one dash)"):
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


@legacy_command("cluster-submit")
def cluster_submit(flags: Flags) -> int:
    """Submit a LinkedIn TonY job (tony.xml) to YARN.

    Follows the job to its end. Exit code: 0 the job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal
    stop the job.
    """
    return submit_and_follow(load(flags=flags, overrides=TO_CLUSTER), tied=True)


@legacy_command("local-submit")
def local_submit(flags: Flags) -> int:
    """Run a LinkedIn TonY job on a small cluster of its own.

    The cluster has two nodes, starts with the job and stops with it; it is not the one of `tony mini`. Exit code: 0 the
    job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal stop the job and the cluster.
    """
    # late: the other commands need no cluster of their own
    from tony.mini.cluster import run_ephemeral_cluster
    from tony.mini.options import MiniOptions

    load(flags=flags, overrides=TO_CLUSTER)  # reports errors before anything is started
    with clean_exit_on_signals(), run_ephemeral_cluster(MiniOptions(nodes=_NODE_COUNT), os.environ, warn) as cluster:
        warn(f"started a cluster of {_NODE_COUNT} nodes for this job")
        os.environ["HADOOP_CONF_DIR"] = str(cluster.conf)
        resolved = load(flags=flags, sets=[f"{CLUSTER_CONF}={cluster.conf}"], overrides=TO_CLUSTER)
        return submit_and_follow(resolved, tied=True)


@legacy_command("notebook-submit")
def notebook_submit(flags: Flags) -> int:
    """Run a notebook on the cluster and forward its port to this machine.

    Works for every server that listens on $TB_PORT: its port is forwarded as soon as it accepts connections. Exit code:
    0 the job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal stop the job.
    """
    resolved = load(flags=flags, assumed={"job_timeout": _DEFAULT_JOB_TIMEOUT}, overrides=TO_CLUSTER)
    if resolved.spec.tensorboard_task is None:
        raise UserError("no task of this job has a TB_PORT for a notebook; remove tony.<type>.instances")
    return submit_and_follow(resolved, tied=True, companion=_forward_port)


async def _forward_port(home: Home, job: str, view: Viewer) -> None:
    """Forward a port as soon as the server accepts connections, until cancelled."""
    task = record_of(home, job).spec.tensorboard_task
    assert task is not None
    pauses = iter(_BACKOFF)
    while not await is_answering(home.job(job), task, 0):
        await asyncio.sleep(next(pauses))
    try:
        async with await open_proxy(home, job, str(task), 0, view.on_notice) as proxy:
            view.on_notice(f"the notebook is at http://{proxy.place}")
            for line in format_ssh_hint(proxy.place):
                view.on_notice(line)
            await asyncio.Event().wait()
    except TonyError as error:  # the job has just ended, or no local port is free: following the job continues
        view.on_notice(str(error))
