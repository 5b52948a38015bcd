"""Why a container ended, in a sentence. What nodes say was taken down from a real NodeManager (3.4.2)."""

import pytest

from tony.hadoop.wire.yarn_records import ContainerStatus, NodeId, NodeReport, NodeState
from tony.model.failure import ClusterKill
from tony.schedulers.yarn.allocation.exit_reasons import (
    explain_exit,
    find_kill,
    find_missing_python_message,
    format_warning,
    is_blameless,
)

#: Exit status, what the node said, our sentence, whether it went through no fault of the job.
ENDS = {
    "its program failed": (
        3,
        (
            "[2026-11-21 15:34:20.168]Exception from container-launch.\n"
            "Container id: container_1795275162084_0001_01_000002\nExit code: 3\n\n"
            "[2026-11-21 15:34:20.245]Container exited with a non-zero exit code 3. Error file: prelaunch.err.\n"
            "Last 4096 bytes of prelaunch.err :\noops\nLast 4096 bytes of stderr :\n\n\n"
            "[2026-11-21 15:34:20.245]Container exited with a non-zero exit code 3. Error file: prelaunch.err.\n"
            "Last 4096 bytes of prelaunch.err :\noops\nLast 4096 bytes of stderr :\n\n\n"
        ),
        "its executor exited with exit code 3: oops",
        False,
    ),
    "killed": (
        137,
        (
            "[2026-11-21 15:34:20.546]Container killed on request. Exit code is 137\n"
            "[2026-11-21 15:34:20.546]Container exited with a non-zero exit code 137. \n"
            "[2026-11-21 15:34:20.546]Killed by external signal\n"
        ),
        "its executor was killed by SIGKILL",
        False,
    ),
    "crashed": (
        139,
        (
            "[2026-11-21 15:34:20.877]Exception from container-launch.\n"
            "Container id: container_1795275162084_0001_01_000004\nExit code: 139\n"
            "Exception message: /local/default_container_executor.sh: line 2: 30719 Segmentation fault      /bin/bash "
            '"/local/default_container_executor_session.sh"\n\n\n'
            "[2026-11-21 15:34:20.881]Container exited with a non-zero exit code 139. Error file: prelaunch.err.\n"
            "Last 4096 bytes of prelaunch.err :\nLast 4096 bytes of stderr :\n\n\n"
        ),
        (
            "its executor was killed by SIGSEGV: Exception message: "
            "/local/default_container_executor.sh: line 2: 30719 "
            'Segmentation fault      /bin/bash "/local/default_container_executor_session.sh"'
        ),
        False,
    ),
    "no such program": (
        127,
        (
            "[2026-11-21 15:34:21.172]Exception from container-launch.\n"
            "Container id: container_1795275162084_0001_01_000005\nExit code: 127\n\n"
            "[2026-11-21 15:34:21.175]Container exited with a non-zero exit code 127. Error file: prelaunch.err.\n"
            "Last 4096 bytes of prelaunch.err :\n/bin/bash: line 1: no-such-program: command not found\n\n"
        ),
        "its executor exited with exit code 127: /bin/bash: line 1: no-such-program: command not found",
        False,
    ),
    "too much memory": (
        -104,
        (
            "[2026-11-21 15:46:19.285]Container "
            "[pid=6802,containerID=container_1795275971251_0001_01_000006] is running "
            "194142208B beyond the 'PHYSICAL' memory limit. Current usage: 313.1 MB of 128 MB physical "
            "memory used; 316.2 "
            "MB of 268.8 MB virtual memory used. Killing container.\n"
            "Dump of the process-tree for container_1795275971251_0001_01_000006 :\n"
            "\t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS) SYSTEM_TIME(MILLIS) VMEM_USAGE(BYTES) "
            "RSSMEM_USAGE(PAGES) FULL_CMD_LINE\n\t|- 6802 6800 6802 6802 (python3) 3 16 331546624 80166 python3 \n\n"
            "[2026-11-21 15:46:19.325]Container killed on request. Exit code is 143\n"
            "[2026-11-21 15:46:19.325]Container exited with a non-zero exit code 143. \n"
        ),
        (
            "YARN killed it for exceeding its physical memory limit: 313.1 MB used, 128 MB allowed. "
            "Request more with `memory`"
        ),
        False,
    ),
    "too much address space": (
        -103,
        (
            "Container [pid=6802,containerID=container_1] is running 49479680B beyond the 'VIRTUAL' "
            "memory limit. Current "
            "usage: 13.1 MB of 128 MB physical memory used; 1.5 GB of 268.8 MB virtual memory used. "
            "Killing container.\n"
        ),
        (
            "YARN killed it for exceeding its virtual memory limit: 1.5 GB used, 268.8 MB allowed. CUDA and many "
            "threads map far more than they use: ask the cluster's administrator to set "
            "yarn.nodemanager.vmem-check-enabled to false, or request more `memory`"
        ),
        False,
    ),
    "too much memory, said otherwise": (
        -104,
        "",
        (
            "YARN killed it for exceeding its physical memory limit: it used more than it requested. "
            "Request more with `memory`"
        ),
        False,
    ),
    "a staged file that was changed": (
        -1000,
        (
            "[2026-11-21 15:34:22.372]Failed to download resource { { hdfs://127.0.0.1:13419/x/f, 1795275255805, FILE, "
            "null },pending,[(container_1795275162084_0001_01_000007)],27978327607633,DOWNLOADING} "
            "java.io.IOException: "
            'Resource hdfs://127.0.0.1:13419/x/f changed on src filesystem - expected: "2026-11-21T15:34:15.805+0000", '
            'was: "2026-11-21T15:34:15.804+0000", current time: "2026-11-21T15:34:22.362+0000"\n'
        ),
        (
            "the node could not start it: java.io.IOException: Resource hdfs://127.0.0.1:13419/x/f changed on src "
            'filesystem - expected: "2026-11-21T15:34:15.805+0000", was: "2026-11-21T15:34:15.804+0000", current time: '
            '"2026-11-21T15:34:22.362+0000"'
        ),
        False,
    ),
    "a staged file that is gone": (
        -1000,
        (
            "[2026-11-21 15:34:22.478]Failed to download resource { { hdfs://127.0.0.1:13419/x/none, "
            "1795275255804, FILE, "
            "null },pending,[(container_1795275162084_0001_01_000008)],27978422196593,DOWNLOADING} "
            "java.io.FileNotFoundException: File does not exist: hdfs://127.0.0.1:13419/x/none\n"
        ),
        (
            "the node could not start it: java.io.FileNotFoundException: File does not exist: "
            "hdfs://127.0.0.1:13419/x/none"
        ),
        False,
    ),
    "ended by itself": (0, "", "its executor exited", False),
    "given back": (
        -100,
        "Container released by application",
        "it was released, or its node was lost: Container released by application",
        True,
    ),
    "lost with its node": (
        -100,
        "Container released on a *lost* node",
        "it was released, or its node was lost: Container released on a *lost* node",
        True,
    ),
    "preempted": (
        -102,
        "Container preempted by scheduler",
        "YARN preempted it for another queue or application: Container preempted by scheduler",
        True,
    ),
    "stopped by us": (
        -105,
        (
            "[2026-11-21 15:34:28.773]Container killed by the ApplicationMaster.\n"
            "[2026-11-21 15:34:28.830]Container killed on request. Exit code is 143\n"
            "[2026-11-21 15:34:28.831]Container exited with a non-zero exit code 143. \n"
        ),
        "it was stopped by the application master",
        False,
    ),
    "ended by the ResourceManager": (-106, "N/A", "the ResourceManager killed it", True),
    "bad disks": (-101, "", "the disks of its node failed", True),
    "after the end": (-107, "Container killed on request", "the application had finished", False),
    "a status that we do not know": (-200, "", "its executor exited with exit code -200", False),
}


@pytest.mark.parametrize(("code", "said", "sentence", "blameless"), ENDS.values(), ids=ENDS)
def test_end(code: int, said: str, sentence: str, blameless: bool) -> None:
    """The cause comes first; what the node says of every container is left out."""
    status = ContainerStatus(exit_status=code, diagnostics=said)
    assert explain_exit(status) == sentence
    assert is_blameless(status) is blameless
    assert (find_kill(status) is not None) is (-200 < code < 0 or code == -1000)
    assert (find_kill(status) is ClusterKill.MEMORY_LIMIT) is (code in (-104, -103))
    assert (find_kill(status) is ClusterKill.PREEMPTED) is (code in (-102, -108))
    assert find_missing_python_message(status) == ""


@pytest.mark.parametrize(
    "said",
    [
        "there is no python3 on host n1: PATH is /bin. Install Python 3.11 or later on the nodes, name one with ...",
        "there is no /opt/my python on host n1 (scheduler.yarn.python, job.toml:7): PATH is /bin. Name one that ...",
        "Python 3.11 or later is required; /usr/bin/python3 on host n1 is 3.6, and no newer one is on PATH (/bin).",
        "there is no Docker container on host n1: the job requests the image x (roles.worker.image), but the ...",
        'the job\'s environment has no bin/python3 that runs on host n1 (scheduler.yarn.python = "environment").',
    ],
)
def test_no_python(said: str) -> None:
    """Known by what our own programs say, among the rest that a node tells."""
    told = f"[2026-11-21 15:46:19.325]Exit code: 127\nLast 4096 bytes of stderr :\ntony: {said}\n\n"
    assert find_missing_python_message(ContainerStatus(exit_status=127, diagnostics=told)) == said
    assert find_missing_python_message(ContainerStatus(exit_status=127, diagnostics="before\n" * 1000 + told)) == said
    assert find_missing_python_message(ContainerStatus(exit_status=-100, diagnostics=told)) == ""
    assert find_missing_python_message(ContainerStatus(exit_status=1, diagnostics=f"a program says tony: {said}")) == ""


def test_long_words() -> None:
    """Of much only the end is told: that is where programs say why they give up."""
    said = "\n".join(f"line {number}" for number in range(300))
    told = explain_exit(ContainerStatus(exit_status=1, diagnostics=said))
    assert told.startswith("its executor exited with exit code 1: ...")
    assert told.endswith("line 299")
    assert len(told) < 700


def test_words_that_a_terminal_would_obey() -> None:
    """Control characters of programs are shown, not passed on."""
    assert explain_exit(ContainerStatus(exit_status=1, diagnostics="\x1b[2Jgone")).endswith(r": \x1b[2Jgone")


@pytest.mark.parametrize(
    ("state", "timeout", "health", "said"),
    [
        (NodeState.RUNNING, None, "", ""),
        (None, None, "", ""),
        (NodeState.UNHEALTHY, None, "1/1 local-dirs are bad: \x1b[31m/data", "is unhealthy: 1/1 local-dirs are bad"),
        (NodeState.UNHEALTHY, None, "", "its node nm2 is unhealthy"),
        (
            NodeState.DECOMMISSIONING,
            3600,
            "",
            "is being decommissioned; containers still running in 1 h 00 m will be killed",
        ),
        (NodeState.DECOMMISSIONING, None, "", "its node nm2 is being decommissioned"),
        (NodeState.LOST, None, "", "its node nm2 is lost"),
    ],
)
def test_the_state_of_a_node_is_described(state: NodeState | None, timeout: int | None, health: str, said: str) -> None:
    """A sentence for its containers' tasks, without control characters."""
    node = NodeId(host="nm2", port=1)
    told = format_warning(NodeReport(id=node, state=state, decommissioning_timeout=timeout, health_report=health))
    assert said in told
    assert bool(said) == bool(told)
    assert "\x1b" not in told
