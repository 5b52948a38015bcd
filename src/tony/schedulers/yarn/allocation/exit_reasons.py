"""Reason for a container's end, as a sentence: from YARN's exit status and the node's diagnostics. Pure."""

from __future__ import annotations

import re

from tony.control_characters import escape_text
from tony.hadoop.wire.yarn_records import (
    NOT_THE_PROGRAM,
    ContainerStatus,
    NodeReport,
    NodeState,
    YarnExitStatus,
    exit_status,
)
from tony.model.failure import ClusterKill
from tony.units import format_duration

#: `... beyond the 'PHYSICAL' memory limit. Current usage: 173.1 MB of 128 MB physical memory used; ...`
_MEMORY = re.compile(r"Current usage: ([\d.]+ [KMGT]?B) of ([\d.]+ [KMGT]?B) (?:physical|virtual) memory", re.ASCII)
_VIRTUAL = re.compile(r"([\d.]+ [KMGT]?B) of ([\d.]+ [KMGT]?B) virtual memory", re.ASCII)
#: A node prefixes each line with its time, and repeats much of it.
_TIME = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\]")
#: Parts of every diagnostics: headings, the exit code again, the node's notes on a file that it fetches.
_NOISE = re.compile(
    r"^(?:Exception from container-launch\.|Container id: \S+|Exit code: -?\d+|"
    r"Exception message: Launch container failed|Shell output: *|"
    r"Container killed on request\. Exit code is -?\d+|Container exited with a non-zero exit code -?\d+\..*|"
    r"Killed by external signal|Last \d+ bytes of \S+ :|Failed to download resource \{.*?\} (?=\S))"
)
#: Messages of the launch scripts (`launch/`) when they find no Python on a node.
_NO_PYTHON = re.compile(
    r"^tony: ((?:there is no .{1,300}? on host|Python 3\.\d+ or later is required;|the job's environment has no) .*)",
    re.ASCII | re.MULTILINE,
)
#: SchedulerUtils.LOST_CONTAINER of Hadoop, used for lost, unhealthy and decommissioned nodes alike.
_LOST = "on a *lost* node"
_EMPTY_WORDS = ("N/A", "")
#: Maximum characters of a node's diagnostics that are shown.
_MAX_TEXT = 600
_MAX_PARSED = 2000

_REASONS = {
    YarnExitStatus.INVALID: "the node could not start it",
    YarnExitStatus.ABORTED: "it was released, or its node was lost",
    YarnExitStatus.DISKS_FAILED: "the disks of its node failed",
    YarnExitStatus.PREEMPTED: "YARN preempted it for another queue or application",
    YarnExitStatus.KILLED_BY_APPMASTER: "it was stopped by the application master",
    YarnExitStatus.KILLED_BY_RESOURCEMANAGER: "the ResourceManager killed it",
    YarnExitStatus.KILLED_AFTER_APP_COMPLETION: "the application had finished",
    YarnExitStatus.KILLED_BY_CONTAINER_SCHEDULER: "its NodeManager killed it to make room for other containers",
    YarnExitStatus.KILLED_FOR_EXCESS_LOGS: "its logs exceeded the limit of its node "
    "(yarn.nodemanager.container-log-monitor.dir-size-limit-bytes)",
}
_SIGNALS = {134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}


def explain_exit(status: ContainerStatus) -> str:
    """Return why a container ended."""
    # The node's own text comes first, the program's output last.
    code, diagnostics, last = status.exit_status, status.diagnostics[:_MAX_PARSED], status.diagnostics[-_MAX_PARSED:]
    known = exit_status(code)
    if known is YarnExitStatus.KILLED_EXCEEDED_PMEM:
        used = _find_usage(_MEMORY, diagnostics)
        return f"YARN killed it for exceeding its physical memory limit: {used}. Request more with `memory`"
    if known is YarnExitStatus.KILLED_EXCEEDED_VMEM:
        used = _find_usage(_VIRTUAL, diagnostics)
        return (
            f"YARN killed it for exceeding its virtual memory limit: {used}. CUDA and many threads "
            "map far more than they use: ask the cluster's administrator to set yarn.nodemanager.vmem-check-enabled "
            "to false, or request more `memory`"
        )
    if known is not None:
        return f"{_REASONS[known]}{_format_node_text(last, known)}"
    if code == 0:
        return "its executor exited"
    signal = _SIGNALS.get(code)
    how = f"was killed by {signal}" if signal else f"exited with exit code {code}"
    return f"its executor {how}{_format_node_text(last, None)}"


def format_warning(report: NodeReport) -> str:
    """Return what a change of a node's state means to its containers; empty if nothing."""
    host, diagnostics = (
        (report.id and report.id.host) or "",
        escape_text((report.health_report or "")[:_MAX_TEXT]).strip(),
    )
    if report.state is NodeState.DECOMMISSIONING:
        left = report.decommissioning_timeout
        rest = "" if left is None else f"; containers still running in {format_duration(left)} will be killed"
        return f"its node {host} is being decommissioned{rest}"
    if report.state is NodeState.UNHEALTHY:
        return f"its node {host} is unhealthy{f': {diagnostics}' if diagnostics else ''}"
    if report.state in (None, NodeState.NEW, NodeState.RUNNING):
        return ""
    return f"its node {host} is {report.state.name.lower()}"


def is_blameless(status: ContainerStatus) -> bool:
    """Return True if the job did not cause the end."""
    return status.exit_status in NOT_THE_PROGRAM


def is_lost(status: ContainerStatus) -> bool:
    """Return True if YARN has only given up the node, so that the container's end is unconfirmed."""
    return exit_status(status.exit_status) is YarnExitStatus.ABORTED and _LOST in status.diagnostics


def find_kill(status: ContainerStatus) -> ClusterKill | None:
    """Return why YARN killed it; None for an exit of its executor, or a signal sent on the node."""
    known = exit_status(status.exit_status)
    if known in (YarnExitStatus.KILLED_EXCEEDED_PMEM, YarnExitStatus.KILLED_EXCEEDED_VMEM):
        return ClusterKill.MEMORY_LIMIT
    if known in (YarnExitStatus.PREEMPTED, YarnExitStatus.KILLED_BY_CONTAINER_SCHEDULER):
        return ClusterKill.PREEMPTED
    return None if known is None else ClusterKill.OTHER


def find_missing_python_message(status: ContainerStatus) -> str:
    """Return the message of the launch script if the node has no suitable Python; else empty."""
    last = escape_text(status.diagnostics[-2 * _MAX_PARSED :], 2 * _MAX_PARSED)  # a PATH may be long
    found = _NO_PYTHON.search(last) if status.exit_status > 0 else None
    return found[1].strip() if found else ""


def _find_usage(pattern: re.Pattern[str], diagnostics: str) -> str:
    found = pattern.search(diagnostics)
    return f"{found[1]} used, {found[2]} allowed" if found else "it used more than it requested"


def _format_node_text(diagnostics: str, known: YarnExitStatus | None) -> str:
    """Return the node's diagnostics, if they add something."""
    if known in (YarnExitStatus.KILLED_BY_APPMASTER, YarnExitStatus.KILLED_AFTER_APP_COMPLETION):
        return ""
    lines = (_NOISE.sub("", _TIME.sub("", line)).strip() for line in escape_text(diagnostics).splitlines())
    short = " ".join(dict.fromkeys(line for line in lines if line not in _EMPTY_WORDS))
    return f": {short if len(short) <= _MAX_TEXT else f'...{short[-_MAX_TEXT:]}'}" if short else ""
