"""`tony mini`."""

from __future__ import annotations

import os
import shlex
import signal
import time

import click

from tony.cli.click_base import CommandGroup
from tony.cli.options import WordParameter, home, json_option
from tony.cli.submission_signals import clean_exit_on_signals
from tony.cli.terminal.output import print_json, say, say_all, warn
from tony.cli.terminal.terminal_text import find_columns, format_table
from tony.errors import TonyError, UserError
from tony.mini.cluster import DaemonStatus, MiniCluster, Status
from tony.mini.kubernetes.cluster import KubernetesCluster, KubernetesStatus
from tony.mini.kubernetes.layout import DATA_CLAIM
from tony.mini.kubernetes.software import PYTHON_IMAGE, VERSION
from tony.mini.options import DEFAULT_HADOOP, HadoopProperty, Label, MiniOptions
from tony.model.codec import to_plain
from tony.schedulers.kubernetes.access_rules import AM_RULES, POD_GROUP_RULES, build_account_objects
from tony.schedulers.kubernetes.settings import KubernetesSettings
from tony.units import format_count, format_size

_HEADING = ("DAEMON", "STATE", "PID", "MEMORY", "WEB", "LOG")
#: Columns that are dropped when the terminal is too narrow, in this order.
_EXPENDABLE = (5, 3, 2, 4)
_SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "STOP": signal.SIGSTOP, "CONT": signal.SIGCONT}


@click.group("mini", cls=CommandGroup)
def command() -> None:
    """Run a small Hadoop cluster, or a small Kubernetes, on this machine.

    NameNode, DataNodes, ResourceManager and NodeManagers run as your processes, on addresses that only this machine can
    reach. They have no authentication: while they run, any local user can run programs as you. Needs Java, and Maven
    the first time, to fetch Hadoop.

    With --kubernetes, a Kubernetes runs in namespaces of its own. Needs root, and Go the first time, to build
    Kubernetes.
    """


@command.command("start")
@click.option(
    "--nodes",
    type=int,
    help=f"Number of NodeManagers, of 8 GB and 8 vcores each (default: {MiniOptions().nodes}), or of nodes of "
    "Kubernetes (default: 1).",
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
@click.option("--kubernetes", is_flag=True, help="Start a Kubernetes instead of Hadoop.")
@json_option("Print the addresses as JSON.")
@click.pass_context
def start(
    context: click.Context,
    nodes: int | None,
    datanodes: int,
    hadoop: str,
    settings: tuple[str, ...],
    labels: tuple[str, ...],
    node_path: str | None,
    kubernetes: bool,
    as_json: bool,
) -> None:
    """Start a cluster; wait until it is ready."""
    if kubernetes:
        _refuse_hadoop_options(context)
        with clean_exit_on_signals():
            _start_kubernetes(1 if nodes is None else nodes, as_json=as_json)
        return
    options = MiniOptions(
        hadoop=hadoop,
        nodes=MiniOptions().nodes if nodes is None else nodes,
        datanodes=datanodes,
        settings=tuple(map(HadoopProperty.read, settings)),
        labels=tuple(map(Label.read, labels)),
        path=node_path,
    )
    started_at = time.monotonic()
    cluster = _cluster()
    with clean_exit_on_signals():
        state = cluster.start(options, warn)
    took = time.monotonic() - started_at
    web = {name: f"http://{state.address(f'{name}.web')}" for name in ("rm", "nn")}
    if as_json:
        print_json({"conf": str(cluster.conf), "seconds": round(took, 3), "web": web, "fs": state.address("nn.rpc")})
        return
    say(f"Hadoop {hadoop} with {format_count(options.nodes, 'node')} is ready after {took:.1f} s.")
    say_all(format_table([("YARN", web["rm"]), ("HDFS", web["nn"]), ("configuration", str(cluster.conf))]))
    say("It has no authentication: while it runs, any local user can run programs as you.")
    say()
    say("Next: tony submit job.toml --scheduler yarn")
    say("For other programs: " + 'eval "$(tony mini env)"')
    say("To stop it: tony mini stop")


def _refuse_hadoop_options(context: click.Context) -> None:
    for parameter in context.command.params:
        is_given = context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE
        if is_given and parameter.name not in ("kubernetes", "nodes", "as_json"):
            raise UserError(f"{parameter.opts[0]} is for Hadoop; with --kubernetes it has no meaning")


def _start_kubernetes(nodes: int, *, as_json: bool) -> None:
    started_at = time.monotonic()
    from tony.jobs.cluster_jobs import end_jobs  # late: it loads what talks to a job

    cluster = _kubernetes()
    objects = build_account_objects(KubernetesSettings().service_account, (*AM_RULES, *POD_GROUP_RULES))
    cluster.start(objects, warn, nodes, end_jobs(home(), cluster.kubeconfig, warn, is_running=False))
    took = time.monotonic() - started_at
    if as_json:
        print_json({"kubeconfig": str(cluster.kubeconfig), "seconds": round(took, 3), "image": PYTHON_IMAGE})
        return
    say(f"Kubernetes {VERSION} with {format_count(nodes, 'node')} is ready after {took:.1f} s.")
    places = [("kubeconfig", str(cluster.kubeconfig)), ("image for jobs", PYTHON_IMAGE)]
    say_all(format_table([*places, ("volume for jobs", f"pvc:{DATA_CLAIM}, the folder {cluster.places.data}")]))
    say()
    say("Next: " + 'eval "$(tony mini env)"')
    say(f"      tony submit job.toml --scheduler kubernetes --set scheduler.kubernetes.image={PYTHON_IMAGE}")
    say("To stop it and remove its volume: tony mini stop")


@command.command("stop")
@json_option("Print the number of stopped daemons as JSON.")
def stop(as_json: bool) -> None:
    """Stop the cluster and remove its files.

    Applications and jobs that run on it are killed. HDFS and the volume for jobs are removed, too.
    """
    failure: TonyError | None = None
    try:
        count = _cluster().stop(warn)
    except TonyError as error:  # one that cannot be stopped does not keep the other one running
        count, failure = 0, error
    count += _stop_kubernetes()
    if failure:
        raise failure
    if as_json:
        print_json({"ended": count})
    else:
        say(f"Stopped {count} daemons" if count else "no cluster was running")


def _stop_kubernetes() -> int:
    """Stop the small Kubernetes, and return how many daemons were running."""
    cluster = _kubernetes()
    if not cluster.places.path.exists():
        return 0
    from tony.jobs.cluster_jobs import end_jobs  # late: it loads what talks to a job

    return cluster.stop(end_jobs(home(), cluster.kubeconfig, warn, is_running=cluster.is_running))


@command.command("status")
@json_option("Print the status as JSON.")
def status(as_json: bool) -> None:
    """Show the status of the daemons."""
    found, kubernetes = _cluster().status(), _kubernetes().status()
    if as_json:
        print_json({**to_plain(found), "kubernetes": to_plain(kubernetes)})
        return
    if found.hadoop is not None or kubernetes is None:
        say(_headline(found))
    if kubernetes is not None:
        say(_kubernetes_headline(kubernetes))
    if daemons := (*found.daemons, *(kubernetes.daemons if kubernetes else ())):
        say_all(format_table([_HEADING, *map(_row, daemons)], find_columns(), _EXPENDABLE))


@command.command("env")
def env() -> None:
    """Print how other programs find the cluster.

    It is a line for the shell: eval "$(tony mini env)".
    """
    cluster, kubernetes = _cluster(), _kubernetes()
    if kubernetes.is_running:
        say(f"export KUBECONFIG={shlex.quote(str(kubernetes.kubeconfig))}")
        if not cluster.places.state.exists():
            return
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

    DAEMON is nn, rm, dn1, nm1... The containers of a killed NodeManager continue. Of Kubernetes, it is the name of a
    program, such as kube-apiserver, with the number of the node from 2 on (kubelet2); or a node but the first (mini2),
    which loses its power.
    """
    if _is_kubernetes_alone():
        pid = _kubernetes().kill(daemon, _SIGNALS[name])
    else:
        process = _cluster().kill(daemon, _SIGNALS[name])
        pid = None if process is None else process.pid
    say(f"{daemon} is not running" if pid is None else f"Sent SIG{name} to {daemon} (pid {pid})")


@command.command("restart")
@click.argument("daemon")
def restart(daemon: str) -> None:
    """Restart a daemon.

    DAEMON is as in `tony mini kill`. Waits until the cluster is ready.
    """
    started_at = time.monotonic()
    dead = (_kubernetes() if _is_kubernetes_alone() else _cluster()).restart(daemon)
    if dead:
        verb = "is" if len(dead) == 1 else "are"
        say(f"Restarted {daemon}; {' and '.join(dead)} {verb} still down; next: tony mini restart {dead[0]}")
    else:
        say(f"Restarted {daemon}; the cluster was ready after {time.monotonic() - started_at:.1f} s")


def _cluster() -> MiniCluster:
    return MiniCluster(home(), os.environ)


def _is_kubernetes_alone() -> bool:
    return not _cluster().places.state.exists() and _kubernetes().is_running


def _kubernetes() -> KubernetesCluster:
    return KubernetesCluster(home(), os.environ)


def _headline(found: Status) -> str:
    if found.hadoop is None:
        return "no cluster is running; start one: tony mini start"
    state = "is ready" if found.waiting_for is None else f"is not ready: {found.waiting_for}"
    return f"Hadoop {found.hadoop} {state}; configuration: {found.conf}"


def _kubernetes_headline(found: KubernetesStatus) -> str:
    state = "is ready" if found.waiting_for is None else f"is not ready: {found.waiting_for}"
    return f"Kubernetes {found.version} {state}; kubeconfig: {found.kubeconfig}"


def _row(daemon: DaemonStatus) -> tuple[str, ...]:
    return (
        daemon.name,
        daemon.state,
        "-" if daemon.pid is None else str(daemon.pid),
        "-" if daemon.memory is None else format_size(daemon.memory),
        daemon.web or "-",
        daemon.log,
    )
