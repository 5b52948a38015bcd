"""Launchers report that one of their programs failed; that program has said why."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind, LineMeaning

RULES = (
    Rule(
        name="launched-program-killed",
        pattern=r"exits with return code = -9\b|Signal 9 \(SIGKILL\) received by PID|exited on signal 9 \(Killed\)|"
        r"died with <Signals\.SIGKILL: 9>|KILLED BY SIGNAL: 9\b",
        kind=FailureKind.MEMORY,
        meaning=LineMeaning.SUMMARY,
        advice="a program was killed, most often because memory of the host ran out: request more, or use less",
        source="deepspeed: deepspeed/launcher/launch.py; pytorch: elastic/multiprocessing/api.py; open-mpi; mpich",
        examples=(
            "[2026-11-27 20:31:29,269] [ERROR] [launch.py:321:sigkill_handler] ['python'] exits with return code = -9",
            "  traceback : Signal 9 (SIGKILL) received by PID 2630",
        ),
        traps=("[2026-11-27 20:31:29,269] [INFO] [launch.py:348:main] Process 7 exits successfully.",),
    ),
    Rule(
        name="deepspeed-summary",
        pattern=r"\[launch\.py:\d+:sigkill_handler\].*exits with return code = ",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="deepspeed: deepspeed/launcher/launch.py",
        examples=(
            "[2026-11-27 20:31:29,269] [ERROR] [launch.py:321:sigkill_handler] ['x'] exits with return code = 1",
        ),
        traps=("[2026-11-27 20:31:29,269] [INFO] [launch.py:348:main] Process 7 exits successfully.",),
    ),
    Rule(
        name="torchrun-summary",
        pattern=r"torch\.distributed\.elastic\.multiprocessing\.(errors\.ChildFailedError|api: ?\[?(ERROR|WARNING)?)|"
        r"\bChildFailedError\b|elastic\.multiprocessing\.api:failed|Sending process \d+ closing signal",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="pytorch: torch/distributed/elastic/multiprocessing/errors/__init__.py, api.py",
        examples=(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            (
                "E0725 12:00:00.1 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) "
                "torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0"
            ),
        ),
        traps=("loaded torch.distributed.elastic",),
    ),
    Rule(
        name="spawn-summary",
        pattern=r"torch\.multiprocessing\.spawn\.Process(Raised|Exited)Exception",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="pytorch: torch/multiprocessing/spawn.py",
        examples=("torch.multiprocessing.spawn.ProcessRaisedException: ",),
        traps=("using torch.multiprocessing.spawn with 2 processes",),
    ),
    Rule(
        name="called-process-error",
        pattern=r"^(subprocess\.)?CalledProcessError: Command .* (returned non-zero exit status|died with)",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="cpython: Lib/subprocess.py",
        examples=("subprocess.CalledProcessError: Command '['false']' returned non-zero exit status 1.",),
        traps=("retrying after a CalledProcessError",),
    ),
    Rule(
        name="srun-summary",
        pattern=r"^(srun|slurmstepd): error: .*(Exited with exit code|task \d+: (Killed|Terminated))|"
        r"^srun: (Job step aborted|Terminating)",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="slurm: src/srun/task_state.c, src/srun/launch.c",
        examples=("srun: error: n1: task 1: Exited with exit code 1", "srun: Job step aborted: Waiting up to 32 s"),
        traps=("srun: job 7 queued and waiting for resources",),
    ),
    Rule(
        name="mpirun-summary",
        pattern=r"^(mpirun|mpiexec|prterun) (noticed that process rank|detected that one or more processes exited)|"
        r"^=\s+BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES|^\[.*\] Process \d+ exited with status code \d+",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="open-mpi: orte/tools/orterun/help-orterun.txt; mpich: src/pm/hydra",
        examples=("mpirun noticed that process rank 1 with PID 0 on node a exited on signal 11 (Segmentation fault).",),
        traps=("mpirun runs 4 processes",),
    ),
    Rule(
        name="horovodrun-summary",
        pattern=r"Horovod detected that one or more processes exited with non-zero status|"
        r"One or more processes exited with non-zero status",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="horovod: horovod/runner/gloo_run.py",
        examples=("RuntimeError: Horovod detected that one or more processes exited with non-zero status",),
        traps=("Horovod detected 4 processes",),
    ),
    Rule(
        name="horovod-peer",
        pattern=r"HorovodInternalError.*(has been shut down|peer|reset|closed)|"
        r"Horovod has been shut down\. This was caused by an exception on one of the ranks",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="horovod: horovod/common/common.h (SHUT_DOWN_ERROR)",
        examples=(
            (
                "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to "
                "allreduce a tensor after one of the ranks finished execution."
            ),
        ),
        traps=("Horovod has been initialized on 4 ranks",),
    ),
    Rule(
        name="horovod-stall",
        pattern=r"One or more tensors were submitted to be reduced.*by subset of ranks",
        kind=FailureKind.HANG,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="horovod: horovod/common/stall_inspector.cc",
        examples=(
            (
                "[W] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and "
                "are waiting for remainder of ranks for more than 60 seconds."
            ),
        ),
        traps=("One or more tensors were submitted to be reduced",),
    ),
    Rule(
        name="mpi-abort",
        pattern=r"MPI_ABORT was invoked on rank \d+",
        kind=FailureKind.USER_CODE,
        meaning=LineMeaning.SUMMARY,
        retry=True,
        source="open-mpi: ompi/mpi/c/abort.c, help-mpi-api.txt",
        examples=("MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",),
        traps=("MPI_ABORT is not called on errors",),
    ),
    Rule(
        name="mpi-executable",
        pattern=r"^(mpirun|mpiexec|prterun) was unable to (find the specified executable file|launch the specified)",
        kind=FailureKind.LAUNCH,
        advice="name a program that is on every node, by its whole path or in PATH",
        source="open-mpi: orte/tools/orterun/help-orterun.txt",
        examples=("mpirun was unable to find the specified executable file, and therefore",),
        traps=("mpirun was unable to bind process 3",),
    ),
    Rule(
        name="mpi-slots",
        pattern=r"There are not enough slots available in the system to satisfy",
        kind=FailureKind.LAUNCH,
        advice="start at most as many processes as the task has slots, or pass --oversubscribe",
        source="open-mpi: orte/mca/rmaps/base/help-orte-rmaps-base.txt",
        examples=("There are not enough slots available in the system to satisfy the 4",),
        traps=("There are 4 slots available in the system",),
    ),
)
