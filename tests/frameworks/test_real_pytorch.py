"""PyTorch itself understands what the adapter tells it; Debian's build, under Debian's interpreter."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tony.model.job_spec import JobSpec, Role

if TYPE_CHECKING:
    from tests.frameworks.conftest import RealGang

PYTHON = "/usr/bin/python3"


def has_torch() -> bool:
    code = "from importlib.util import find_spec; raise SystemExit(find_spec('torch') is None)"
    return Path(PYTHON).exists() and subprocess.run([PYTHON, "-I", "-c", code], check=False).returncode == 0


pytestmark = [
    pytest.mark.framework,
    pytest.mark.slow,
    pytest.mark.skipif(not has_torch(), reason=f"{PYTHON} has no torch; apt-get install python3-torch"),
]

#: Each rank trains on its own number; DistributedDataParallel leaves everybody with the mean of the gradients.
TRAIN = """
import gc, json, os
from datetime import timedelta
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(minutes=3){how})
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
model(torch.tensor([[float(dist.get_rank())]])).sum().backward()
mine = [os.environ[name] for name in ("JOB_NAME", "TASK_INDEX", "LOCAL_RANK", "GROUP_RANK")]
everybody = [None] * dist.get_world_size()
dist.all_gather_object(everybody, [dist.get_rank(), *mine])
print(json.dumps([model.module.weight.grad.item(), everybody]))
# The model holds the process group, whose threads must end before the interpreter does: torch 1.13 aborts otherwise.
dist.barrier()
del model
gc.collect()
dist.destroy_process_group()
"""
#: As programs for LinkedIn TonY tell it.
ORIGINAL = ', init_method=os.environ["INIT_METHOD"], rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD"])'


def test_two_workers_by_the_original_names(real_gang: RealGang) -> None:
    """INIT_METHOD, RANK and WORLD are enough."""
    spec = JobSpec(framework="pytorch", roles={"worker": Role(instances=2)})
    lines = real_gang.run(spec, TRAIN.replace("{how}", ORIGINAL), python=PYTHON)
    expected = [0.5, [[0, "worker", "0", "0", "0"], [1, "worker", "1", "0", "1"]]]
    assert {name: json.loads(output[-1]) for name, output in lines.items()} == {
        "worker:0": expected,
        "worker:1": expected,
    }


def test_two_roles_and_two_processes_in_a_task(real_gang: RealGang) -> None:
    """One rank order over all, the chief first; init_process_group finds everything by itself."""
    roles = {"worker": Role(procs_per_task=2), "chief": Role()}
    lines = real_gang.run(JobSpec(framework="pytorch", roles=roles), TRAIN.replace("{how}", ""), python=PYTHON)
    expected = [
        1.0,
        [[0, "chief", "0", "0", "0"], [1, "worker", "0", "0", "1"], [2, "worker", "0", "1", "1"]],
    ]
    assert {name: json.loads(output[-1]) for name, output in lines.items()} == {
        "chief:0": expected,
        "worker:0/0": expected,
        "worker:0/1": expected,
    }
