"""`tony mini`."""

from __future__ import annotations

import os
import shlex
import signal
import time

import click

from tony.cli.click_base import CommandGroup
from tony.cli.options import WordParameter, home, json_option
from tony.cli.terminal.output import print_json, say, say_all, warn
from tony.cli.terminal.terminal_text import find_columns, format_table
from tony.errors import UserError
from tony.mini.cluster import DaemonStatus, MiniCluster, Status
from tony.mini.options import DEFAULT_HADOOP, HadoopProperty, Label, MiniOptions
from tony.units import format_count, format_size

_HEADING = ("DAEMON", "STATE", "PID", "MEMORY", "WEB", "LOG")
#: Columns that are dropped when the terminal is too narrow, in this order.
_EXPENDABLE = (5, 3, 2, 4)
_SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "STOP": signal.SIGSTOP, "CONT": signal.SIGCONT}


@click.group("mini", cls=CommandGroup)
def command() -> None:
    """Run a small Hadoop cluster on this machine.

    NameNode, DataNodes, ResourceManager and NodeManagers run as your processes, on addresses that only this machine can
    reach. They have no authentication: while they run, any local user can run programs as you. Needs Java, and Maven
    the first time, to fetch Hadoop.
    """


@command.command("start")
@click.option(
    "--nodes", type=int, default=3, show_default=True, help="Number of NodeManagers, of 8 GB and 8 vcores each."
)
@click.option("--datanodes", type=int, default=1, show_default=True, help="Number of DataNodes.")
@click.option("--hadoop", default=DEFAULT_HADOOP, show_default=True, metavar="RELEASE", help="Hadoop release.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[DAEMON:]KEY=VALUE",
    help="Hadoop property; with nm1: only for that node.",
)
@click.option("--label", "labels", multiple=True, metavar="LABEL=nm1,...", help="Label nodes.")
@click.option(
    "--node-path", metavar="FOLDERS", help="PATH of the nodes; default: this interpreter as python3, then your PATH."
)
@json_option("Print the addresses as JSON.")
def start(
    nodes: int,
    datanodes: int,
    hadoop: str,
    settings: tuple[str, ...],
    labels: tuple[str, ...],
    node_path: str | None,
    as_json: bool,
) -> None:
    """Start a cluster; wait until it is ready."""
    options = MiniOptions(
        hadoop=hadoop,
        nodes=nodes,
        datanodes=datanodes,
        settings=tuple(map(HadoopProperty.read, settings)),
        labels=tuple(map(Label.read, labels)),
        path=node_path,
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _abort_start)
    started_at = time.monotonic()
    cluster = _cluster()
    state = cluster.start(options, warn)
    took = time.monotonic() - started_at
    web = {name: f"http://{state.address(f'{name}.web')}" for name in ("rm", "nn")}
    if as_json:
        print_json({"conf": str(cluster.conf), "seconds": round(took, 3), "web": web, "fs": state.address("nn.rpc")})
        return
    say(f"Hadoop {hadoop} with {format_count(nodes, 'node')} is ready after {took:.1f} s.")
    say_all(format_table([("YARN", web["rm"]), ("HDFS", web["nn"]), ("configuration", str(cluster.conf))]))
    say("It has no authentication: while it runs, any local user can run programs as you.")
    say()
    say("Next: tony submit job.toml --scheduler yarn")
    say("For other programs: " + 'eval "$(tony mini env)"')
    say("To stop it: tony mini stop")


@command.command("stop")
@json_option("Print the number of stopped daemons as JSON.")
def stop(as_json: bool) -> None:
    """Stop the cluster and remove its files.

    Applications that run on it are killed.
    """
    count = _cluster().stop(warn)
    if as_json:
        print_json({"ended": count})
    else:
        say(f"Stopped {count} daemons" if count else "no cluster was running")


@command.command("status")
@json_option("Print the status as JSON.")
def status(as_json: bool) -> None:
    """Show the status of the daemons."""
    found = _cluster().status()
    if as_json:
        print_json(found)
        return
    say(_headline(found))
    if found.daemons:
        say_all(format_table([_HEADING, *map(_row, found.daemons)], find_columns(), _EXPENDABLE))


@command.command("env")
def env() -> None:
    """Print how other programs find the cluster.

    It is a line for the shell: eval "$(tony mini env)".
    """
    cluster = _cluster()
    if not cluster.state.find_running():
        raise UserError("the cluster's daemons have exited; start it again: tony mini start")
    say(f"export HADOOP_CONF_DIR={shlex.quote(str(cluster.conf))}")


@command.command("kill")
@click.argument("daemon")
@click.option(
    "--signal", "name", type=WordParameter(list(_SIGNALS)), default="KILL", show_default=True, help="Signal to send."
)
def kill(daemon: str, name: str) -> None:
    """Send a signal to a daemon.

    DAEMON is nn, rm, dn1, nm1... The containers of a killed NodeManager continue.
    """
    process = _cluster().kill(daemon, _SIGNALS[name])
    say(f"{daemon} is not running" if process is None else f"Sent SIG{name} to {daemon} (pid {process.pid})")


@command.command("restart")
@click.argument("daemon")
def restart(daemon: str) -> None:
    """Restart a daemon.

    DAEMON is nn, rm, dn1, nm1... Waits until the cluster is ready.
    """
    started_at = time.monotonic()
    dead = _cluster().restart(daemon)
    if dead:
        verb = "is" if len(dead) == 1 else "are"
        say(f"Restarted {daemon}; {' and '.join(dead)} {verb} still down; next: tony mini restart {dead[0]}")
    else:
        say(f"Restarted {daemon}; the cluster was ready after {time.monotonic() - started_at:.1f} s")


def _abort_start(number: int, frame: object) -> None:
    """Abort the start; the daemons started so far are stopped."""
    raise SystemExit(128 + number)


def _cluster() -> MiniCluster:
    return MiniCluster(home(), os.environ)


def _headline(found: Status) -> str:
    if found.hadoop is None:
        return "no cluster is running; start one: tony mini start"
    state = "is ready" if found.waiting_for is None else f"is not ready: {found.waiting_for}"
    return f"Hadoop {found.hadoop} {state}; configuration: {found.conf}"


def _row(daemon: DaemonStatus) -> tuple[str, ...]:
    return (
        daemon.name,
        daemon.state,
        "-" if daemon.pid is None else str(daemon.pid),
        "-" if daemon.memory is None else format_size(daemon.memory),
        daemon.web,
        daemon.log,
    )
