"""Why a container ended, in a sentence: YARN's exit statuses, and what the node said. Pure."""

from __future__ import annotations

import re

from tony.hadoop.remote_text import shown
from tony.hadoop.wire.yarn_records import ContainerStatus, NodeReport, NodeState
from tony.hadoop.yarn.exit_status import NOT_THE_PROGRAM, YarnExitStatus, exit_status
from tony.units import format_duration

#: `... beyond the 'PHYSICAL' memory limit. Current usage: 173.1 MB of 128 MB physical memory used; ...`
_MEMORY = re.compile(r"Current usage: ([\d.]+ [KMGT]?B) of ([\d.]+ [KMGT]?B) (?:physical|virtual) memory", re.ASCII)
_VIRTUAL = re.compile(r"([\d.]+ [KMGT]?B) of ([\d.]+ [KMGT]?B) virtual memory", re.ASCII)
#: A node says everything with its time, and much of it twice.
_TIME = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\]")
#: What it says of every container: headings, the exit code again, its own notes on a file that it fetches.
_NOISE = re.compile(
    r"^(?:Exception from container-launch\.|Container id: \S+|Exit code: -?\d+|"
    r"Exception message: Launch container failed|Shell output: *|"
    r"Container killed on request\. Exit code is -?\d+|Container exited with a non-zero exit code -?\d+\..*|"
    r"Killed by external signal|Last \d+ bytes of \S+ :|Failed to download resource \{.*?\} (?=\S))"
)
#: What our own programs say that find no Python on a node: `launch/`.
_NO_PYTHON = re.compile(
    r"^tony: ((?:there is no .{1,300}? on host|Python 3\.\d+ or later is needed;|the job's environment has no) .*)",
    re.ASCII | re.MULTILINE,
)
#: Facts: SchedulerUtils.LOST_CONTAINER. Nodes that are lost, unhealthy and decommissioned are spoken of alike.
_LOST = "on a *lost* node"
_EMPTY_WORDS = ("N/A", "")
#: Characters of a node's words that are told.
_MOST = 600
_LOOKED_AT = 2000

_SENTENCES = {
    YarnExitStatus.INVALID: "the node could not start it",
    YarnExitStatus.ABORTED: "it was given back, or its node was lost",
    YarnExitStatus.DISKS_FAILED: "the disks of its node failed",
    YarnExitStatus.PREEMPTED: "the scheduler took it back for another queue or application (preemption)",
    YarnExitStatus.KILLED_BY_APPMASTER: "it was stopped by the application master",
    YarnExitStatus.KILLED_BY_RESOURCEMANAGER: "the ResourceManager ended it",
    YarnExitStatus.KILLED_AFTER_APP_COMPLETION: "the application was over",
    YarnExitStatus.KILLED_BY_CONTAINER_SCHEDULER: "its node wanted the room back",
    YarnExitStatus.KILLED_FOR_EXCESS_LOGS: "it wrote more logs than its node allows "
    "(yarn.nodemanager.container-log-monitor.dir-size-limit-bytes)",
}
_SIGNALS = {134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}


def cause(status: ContainerStatus) -> str:
    """Why it ended."""
    # A node's own words come first, those of the program last.
    code, said, last = status.exit_status, status.diagnostics[:_LOOKED_AT], status.diagnostics[-_LOOKED_AT:]
    known = exit_status(code)
    if known is YarnExitStatus.KILLED_EXCEEDED_PMEM:
        return f"YARN killed it for memory: {_usage(_MEMORY, said)}. Ask for more with `memory`"
    if known is YarnExitStatus.KILLED_EXCEEDED_VMEM:
        return (
            f"YARN killed it for virtual memory: {_usage(_VIRTUAL, said)}. CUDA and many threads map far more than "
            "they use: ask who runs the cluster to set yarn.nodemanager.vmem-check-enabled to false, or ask for more "
            "`memory`"
        )
    if known is not None:
        return f"{_SENTENCES[known]}{_words(last, known)}"
    if code == 0:
        return "its executor ended"
    signal = _SIGNALS.get(code)
    how = f"was killed by {signal}" if signal else f"ended with exit code {code}"
    return f"its executor {how}{_words(last, None)}"


def warning(report: NodeReport) -> str:
    """What a change of a node's state means to the containers on it; empty if nothing."""
    host, said = (report.id and report.id.host) or "", shown((report.health_report or "")[:_MOST]).strip()
    if report.state is NodeState.DECOMMISSIONING:
        left = report.decommissioning_timeout
        rest = "" if left is None else f"; in {format_duration(left)} it ends what still runs"
        return f"its node {host} is being decommissioned{rest}"
    if report.state is NodeState.UNHEALTHY:
        return f"its node {host} is unhealthy{f': {said}' if said else ''}"
    if report.state in (None, NodeState.NEW, NodeState.RUNNING):
        return ""
    return f"its node {host} is {report.state.name.lower()}"


def is_blameless(status: ContainerStatus) -> bool:
    """Whether it went through no fault of the job."""
    return status.exit_status in NOT_THE_PROGRAM


def is_lost(status: ContainerStatus) -> bool:
    """Whether YARN only says so because it has given up the node: nobody has seen the container end."""
    return exit_status(status.exit_status) is YarnExitStatus.ABORTED and _LOST in status.diagnostics


def is_forced(status: ContainerStatus) -> bool:
    """Whether YARN ended it: not its executor by itself, nor somebody on the node by a signal."""
    return exit_status(status.exit_status) is not None


def no_python(status: ContainerStatus) -> str:
    """What was said if its node has no Python for our programs; else empty."""
    last = shown(status.diagnostics[-2 * _LOOKED_AT :], 2 * _LOOKED_AT)  # a PATH may be long
    found = _NO_PYTHON.search(last) if status.exit_status > 0 else None
    return found[1].strip() if found else ""


def is_over_memory(status: ContainerStatus) -> bool:
    """Whether YARN ended it because it took more memory than it may have, of either kind."""
    known = exit_status(status.exit_status)
    return known in (YarnExitStatus.KILLED_EXCEEDED_PMEM, YarnExitStatus.KILLED_EXCEEDED_VMEM)


def _usage(pattern: re.Pattern[str], said: str) -> str:
    found = pattern.search(said)
    return f"{found[1]} used, {found[2]} allowed" if found else "it used more than it asked for"


def _words(said: str, known: YarnExitStatus | None) -> str:
    """What the node itself said, as far as that says more."""
    if known in (YarnExitStatus.KILLED_BY_APPMASTER, YarnExitStatus.KILLED_AFTER_APP_COMPLETION):
        return ""
    lines = (_NOISE.sub("", _TIME.sub("", line)).strip() for line in shown(said).splitlines())
    short = " ".join(dict.fromkeys(line for line in lines if line not in _EMPTY_WORDS))
    return f": {short if len(short) <= _MOST else f'...{short[-_MOST:]}'}" if short else ""
