"""`tony proxy JOB TASK[:PORT]`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

import click

from tony.cli.options import TargetParameter, job_argument, job_id, json_option, split_target
from tony.cli.submission_follower import exit_code
from tony.cli.terminal.display import format_ssh_hint
from tony.cli.terminal.output import print_json, say, say_all, warn
from tony.client.port_forward import open_proxy
from tony.jobs.failure_text import format_outcome
from tony.jobs.job_follower import iterate_reports
from tony.model.state_directory import Home


@click.command("proxy")
@job_argument
@click.argument("target", metavar="TASK[:PORT]", type=TargetParameter())
@click.option("--port", type=click.IntRange(1, 65535), help="Local port [default: PORT, or a free one].")
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Local address to listen on. On 127.0.0.1 only you and root can connect.",
)
@json_option("Print the local address as JSON.")
def command(job: str, target: str, port: int | None, address: str, as_json: bool) -> int:
    """Forward a local port to a port of a task.

    Forwards connections to a task of JOB until the job has ended. TASK is a task such as worker:0, or a role that has
    one task. PORT defaults to the task's TB_PORT, or to its reserved port if it has none. Only the machine of the
    application master has to be reachable from here. Exit code: the job's. Ctrl-C stops the forwarding, not the job.
    """
    home, name = job_id(job)
    return asyncio.run(_serve(home, name, target, address, port, as_json=as_json))


async def _serve(home: Home, name: str, target: str, address: str, port: int | None, *, as_json: bool) -> int:
    task_or_role, task_port = split_target(target)
    async with await open_proxy(home, name, task_or_role, task_port, warn, address=address, port=port) as proxy:
        task = str(proxy.task)
        if as_json:
            print_json({"job": name, "task": task, "port": task_port or None, "address": proxy.place})
        else:
            say(f"Forwarding {proxy.place} to {task}, {f'port {task_port}' if task_port else 'its reserved port'}")
            say_all(format_ssh_hint(proxy.place))
        sys.stdout.flush()
        async with aclosing(iterate_reports(home, name, warn)) as stream:
            async for report in stream:
                last = report
    warn(format_outcome(last))
    return exit_code(last)
