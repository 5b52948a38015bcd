"""Which process NCCL's RAS service finds behind, from answers as NVIDIA documents and formats them."""

from __future__ import annotations

import pytest

from tony.diagnosis.nccl_status import STATUS_HEAD, LateProcess, parse_status
from tony.diagnosis.stack_groups import TaskStack, find_collective_evidence, find_odd_task
from tony.model.ids import TaskId

#: docs/userguide/source/troubleshooting/ras.rst of NCCL 2.30: a running job, and its two kinds of problems.
HEALTHY = """Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         8         4         1         4        32   RUNNING      OK

Errors
======

Warnings
========

"""
BEHIND = """Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210

"""
MISSING = """Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data
"""
#: After src/ras/client_support.cc of NCCL 2.30: counts of each operation, a single rank, and one without any.
EACH_OPERATION = """#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different status
  3 ranks have status RUNNING
  Rank 3 has status FINALIZE -- GPU 3 managed by process 9 on node 10.0.0.1
  Communicator ranks have different AllGather operation counts
  3 ranks have launched up to operation 7
  Rank 1 has not launched any operations -- GPU 1 (NVML 5) managed by process 12 on node 10.0.0.1

  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 204
  Rank 1 has launched up to operation 203 -- GPU 1 (NVML 5) managed by process 12 on node 10.0.0.1

"""


def in_stacks(answer: str) -> str:
    return f"=== process 12: python train.py\nstacks\n{STATUS_HEAD}, from process 12\n{answer}"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (HEALTHY, []),
        (BEHIND, [483072, 483074]),
        (MISSING, [3487984]),
        (EACH_OPERATION, [12, 12]),
        (EACH_OPERATION + MISSING, [3487984, 12, 12]),
        (EACH_OPERATION[: EACH_OPERATION.index("  Rank 1 has launched")], [12]),
        ("x" * 100_000, []),
    ],
    ids=["healthy", "behind", "missing", "each operation", "missing first", "cut off", "invalid"],
)
def test_processes_behind(answer: str, expected: list[int]) -> None:
    assert [process.pid for process in parse_status(in_stacks(answer))] == expected


def test_the_answer_ends_where_the_stack_traces_begin() -> None:
    status = f"{STATUS_HEAD}, from process 12\n"
    assert parse_status(f"{status}{HEALTHY}\n=== process 12: cat\n{BEHIND}") == []
    assert parse_status(f"{status}{BEHIND}\n=== process 12: cat\nstacks\n")[0].pid == 483072


def test_other_text_is_no_answer() -> None:
    assert parse_status(BEHIND) == []
    assert parse_status(in_stacks(BEHIND))[0] == LateProcess(
        483072, "has launched 6,649 collective operations of NCCL, others up to 6,650"
    )


def test_the_task_of_a_process_is_the_odd_one() -> None:
    """Any executor may have the answer. Pids of several containers are not unique: then it names none."""

    def find(*texts: str) -> TaskId | None:
        return find_odd_task(
            [
                TaskStack(task=TaskId("worker", index), collectives=find_collective_evidence(text))
                for index, text in enumerate(texts)
            ]
        ).task

    asked = f"=== process 11: python train.py\n{STATUS_HEAD}, from process 11\n{EACH_OPERATION}"
    assert find(asked, "=== process 12: python train.py\n") == TaskId("worker", 1)
    assert find(asked, "=== process 12: python\n", "=== process 12: python\n") is None
