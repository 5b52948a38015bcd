"""PyTorch itself understands what the adapter tells it; Debian's build, under Debian's interpreter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.framework_envs import DEBIAN_PYTHON, has_torch
from tony.model.job_spec import JobSpec, Role

if TYPE_CHECKING:
    from tests.frameworks.conftest import RealGang

pytestmark = [
    pytest.mark.framework,
    pytest.mark.slow,
    pytest.mark.on_change("frameworks", "executor", "linux"),
    pytest.mark.skipif(not has_torch(), reason=f"{DEBIAN_PYTHON} has no torch; apt-get install python3-torch"),
]

#: Each rank trains on its own number; DistributedDataParallel leaves all ranks with the mean of the gradients.
TRAIN = """
import gc, json, os
from datetime import timedelta
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(minutes=3))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
model(torch.tensor([[float(dist.get_rank())]])).sum().backward()
mine = [os.environ[name] for name in ("JOB_NAME", "TASK_INDEX", "LOCAL_RANK", "GROUP_RANK")]
ranks = [None] * dist.get_world_size()
dist.all_gather_object(ranks, [dist.get_rank(), *mine])
print(json.dumps([model.module.weight.grad.item(), ranks]))
# The model holds the process group, whose threads must end before the interpreter does: torch 1.13 aborts otherwise.
dist.barrier()
del model
gc.collect()
dist.destroy_process_group()
"""


def test_two_roles_and_two_processes_in_a_task(real_gang: RealGang) -> None:
    """One rank order over all, the chief first; init_process_group finds everything by itself."""
    roles = {"worker": Role(procs_per_task=2), "chief": Role()}
    lines = real_gang.run(JobSpec(framework="pytorch", roles=roles), TRAIN, python=DEBIAN_PYTHON)
    expected = [
        1.0,
        [[0, "chief", "0", "0", "0"], [1, "worker", "0", "0", "1"], [2, "worker", "0", "1", "1"]],
    ]
    assert {name: json.loads(output[-1]) for name, output in lines.items()} == {
        "chief:0": expected,
        "worker:0/0": expected,
        "worker:0/1": expected,
    }
