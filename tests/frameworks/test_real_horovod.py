"""Horovod itself understands what the adapter and the rendezvous server tell it. Built from source: `make test-all`."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import lab as lab
from tests.framework_envs import BUILD, interpreter
from tony.frameworks.horovod import count_slots, slots_of

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = [pytest.mark.framework, pytest.mark.long, pytest.mark.timeout(BUILD)]


@pytest.fixture
def python() -> str:
    return interpreter("horovod")


#: All that needs the rendezvous server: the beginning, a further set of processes, and a second beginning.
RANK = """
import sys
import torch
import horovod.torch as hvd

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")  # in one piece: processes of a task share their output

def total(number, **more):
    return hvd.allreduce(torch.tensor([float(number)]), op=hvd.Sum, **more).item()

odd = hvd.ProcessSet([1, 3])
hvd.init(process_sets=[odd])
say("first", hvd.rank(), hvd.local_rank(), hvd.size(), total(hvd.rank()))
if hvd.rank() in (1, 3):
    say("odd", total(hvd.rank(), process_set=odd))
hvd.barrier()  # who shuts down ends what the others are still about
hvd.shutdown()
hvd.init()
say("second", total(hvd.rank() + 1))
"""


def test_processes_add_up(lab: Lab, python: str) -> None:
    """Two tasks of one process and one of two: the sums are right, for all, for some, and after a second beginning."""
    job = lab.job_file(
        f"""
        framework = "horovod"
        python = "{python}"
        command = "python rank.py"

        [env]
        OMP_NUM_THREADS = "1"

        [roles.chief]
        memory = "1g"
        [roles.worker]
        memory = "2g"
        [roles.helper]
        memory = "2g"
        procs_per_task = 2
        """,
        {"rank.py": RANK},
    )
    done = lab.submit(job, timeout=600)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    firsts = [line.split() for line in re.findall(r"\\| first (.*)", printed)]
    assert sorted(firsts) == [[str(rank), str(rank), "4", "6.0"] for rank in range(4)]
    assert re.findall(r"\\| odd (.*)", printed) == ["4.0"] * 2
    assert re.findall(r"\\| second (.*)", printed) == ["10.0"] * 4


def test_slots_are_those_that_horovod_assigns(python: str) -> None:
    """Its own function, asked for a few dozen shapes."""
    shapes = [[("abcd"[(7 * n + k * n * n) % 4], 1 + (n * k) % 3) for n in range(1 + k % 7)] for k in range(40)]
    code = (
        "import json, sys; from horovod.runner.common.util.hosts import HostInfo, get_host_assignments\n"
        "for hosts in json.load(sys.stdin): print(json.dumps([[s.hostname, s.rank, s.size, s.local_rank, s.local_size,"
        " s.cross_rank, s.cross_size] for s in get_host_assignments([HostInfo(*h) for h in hosts], 1)]))"
    )
    asked = json.dumps([list(count_slots(tasks).items()) for tasks in shapes])
    said = subprocess.run([python, "-c", code], input=asked, capture_output=True, text=True, timeout=120, check=True)
    for tasks, line in zip(shapes, said.stdout.splitlines(), strict=True):
        ours = [slot for which in range(len(tasks)) for slot in slots_of(tasks, which)]
        assert json.loads(line) == [
            [s.host, s.rank, s.size, s.local_rank, s.local_size, s.cross_rank, s.cross_size]
            for s in sorted(ours, key=lambda slot: slot.rank)
        ]
