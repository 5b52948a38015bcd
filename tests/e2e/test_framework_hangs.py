"""One task of a real framework leaves the others waiting in a collective operation: it is named, with its frame."""

from __future__ import annotations

import pytest

from tests.e2e.lab import Lab
from tests.framework_envs import DEBIAN_PYTHON, find_recording_torch, has_torch

pytestmark = [pytest.mark.framework, pytest.mark.on_change("am", "diagnosis")]

#: Each program trains in steps of a tenth of a second; one task stops in the middle, where it loads data.
JAX = """
from functools import partial
import os, time
import jax, numpy as np, tony
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.distributed.initialize()
mesh = Mesh(jax.devices(), ("all",))
add_up = jax.jit(jax.shard_map(
    partial(jax.lax.psum, axis_name="all"), mesh=mesh, in_specs=PartitionSpec("all"), out_specs=PartitionSpec()
))

def exchange(step):
    mine = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("all")), np.array([step + 0.0]))
    return float(add_up(mine).addressable_data(0)[0])
"""
TENSORFLOW = """
import os, time
import tensorflow as tf, tony

strategy = tf.distribute.MultiWorkerMirroredStrategy()

@tf.function
def add_up(step):
    return strategy.reduce("SUM", strategy.run(lambda: tf.identity(step)), axis=None)

def exchange(step):
    return float(add_up(tf.constant(step + 0.0)))
"""
PYTORCH = """
import os, time
import torch, torch.distributed as dist, tony

dist.init_process_group("gloo")

def exchange(step):
    gradient = torch.tensor([step + 0.0])
    dist.all_reduce(gradient)
    return float(gradient)
"""
PLAIN = """
import os, pathlib, time

OUT, INDEX = pathlib.Path(os.environ["OUT"]), os.environ["TASK_INDEX"]

def exchange(step):
    (OUT / f"{step}-{INDEX}").touch()
    while not all((OUT / f"{step}-{index}").exists() for index in range(3)):
        time.sleep(0.05)
    print("batch", step, flush=True)
"""
LOOP = """
def load():
    time.sleep(1000)

for step in range(1, 100_000):
    if step == 40 and os.environ["TASK_INDEX"] == "1":
        load()
    exchange(step)
    {report}
    time.sleep(0.1)
"""
#: Of three tasks two form a group; one of these, or of all, does not do what the others do.
GROUPS = """
import os, time
import torch, torch.distributed as dist, tony

dist.init_process_group("gloo")
pair = dist.new_group([1, 2])

def load():
    time.sleep(1000)

for step in range(1, 100_000):
    if step == 20:
        {odd}
    dist.all_reduce(torch.ones(1024))
    tony.progress(step)
    time.sleep(0.1)
"""
#: tests/diagnosis/test_stack_groups.py has their stack traces.
RECORDED = pytest.mark.long
HEAD = """
metrics_interval = "250ms"
heartbeat_interval = "200ms"
stall_timeout = "{timeout}"
framework = "{framework}"
"""


@pytest.mark.parametrize(
    ("framework", "program", "python", "timeout", "instances"),
    [
        # Stack traces do not tell that a task waits in JAX's compiled code: the majority does.
        pytest.param("jax", JAX, "python3", "30s", 3, id="jax", marks=RECORDED),
        pytest.param("tensorflow", TENSORFLOW, "python3", "30s", 2, id="tensorflow", marks=RECORDED),
        pytest.param(
            "pytorch",
            PYTORCH,
            DEBIAN_PYTHON,
            "30s",
            2,
            id="pytorch",
            marks=pytest.mark.skipif(not has_torch(), reason=f"{DEBIAN_PYTHON} has no torch"),
        ),
        pytest.param("none", PLAIN, "python3", "10s", 3, id="plain-python-without-steps"),
    ],
)
def test_the_task_that_the_others_wait_for_is_named(
    lab: Lab, framework: str, program: str, python: str, timeout: str, instances: int
) -> None:
    report = "" if framework == "none" else "tony.progress(step)"
    text = f"[roles.worker]\ninstances = {instances}\ncommand = '{python} x.py'\n"
    head = HEAD.format(framework=framework, timeout=timeout)
    job = lab.detach(lab.roles(program + LOOP.format(report=report), text, head, JAX_PLATFORMS="cpu"))
    event = lab.wait_event(job, "stalled")
    assert (event["task"], event["frame"].split(":")[0]) == ("worker:1", "load at x.py")
    assert event["reason"].count(" at x.py:") == 2, "where it is, and where the others are"
    lab.tony("kill", job)


@pytest.mark.parametrize(
    ("odd", "task", "sentence"),
    [
        pytest.param(
            "dist.get_rank() == 2 and load(); dist.get_rank() == 1 and dist.broadcast(torch.ones(16), 2, group=pair)",
            "worker:2",
            "worker:2 has not joined all_reduce #20 (Float [1024]) of the default group after all_reduce #19; "
            "worker:2 (last step 19) is in load at x.py:",
            id="not-joined",
        ),
        pytest.param(
            "dist.get_rank() == 1 and dist.broadcast(torch.ones(8), 0)",
            "worker:1",
            "operation #20 of the default group differs: broadcast (Float [8]) of worker:1, all_reduce (Float [1024]) "
            "of 2 others; worker:1 (last step 19) is in broadcast at x.py:",
            id="another-operation",
        ),
    ],
)
def test_the_collective_operation_that_a_task_has_not_joined(lab: Lab, odd: str, task: str, sentence: str) -> None:
    """As PyTorch has recorded it."""
    python = find_recording_torch()
    if python is None:
        pytest.skip("no PyTorch here records collective operations of gloo; TEST_TORCH may name a Python")
    text = f"[roles.worker]\ninstances = 3\nmemory = '900m'\ncommand = '{python} x.py'\n"
    head = HEAD.format(framework="pytorch", timeout="30s")
    job = lab.detach(lab.roles(GROUPS.format(odd=odd), text, head, OMP_NUM_THREADS="1"))
    event = lab.wait_event(job, "stalled")
    assert (event["task"], event["reason"][: len(sentence)]) == (task, sentence)
    lab.tony("kill", job)
