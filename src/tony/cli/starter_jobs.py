"""The files of `tony init`: for each framework a small job file and a program that runs with it at once.

Every program fits `y = 3 x + 2` on two workers, on CPUs, in seconds; each worker has its own part of the points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

JOB_FILE = "job.toml"
PROGRAM = "train.py"
#: Of the lines that every program prints.
_PROGRESS_PATTERN = "step (?P<step>[0-9]+)/(?P<total>[0-9]+), loss (?P<loss>[0-9.]+)"


@dataclass(frozen=True, slots=True)
class StarterJob:
    """A job to begin with.

    Attributes:
        module: Python module that the program needs; empty if none.
        memory: of one worker.
        env: the line with its variables; empty if it needs none.
        program: the text of `train.py`.
    """

    module: str
    memory: str
    env: str
    program: str


_NONE = '''"""Fit y = 3 x + 2 without a framework: each worker finds the slope of its own points.

tony sets TASK_INDEX and TASK_NUM: they say which part of the work is this worker's.
"""

import os
import random

STEPS = 200

index, count = int(os.environ["TASK_INDEX"]), int(os.environ["TASK_NUM"])
print(f"worker {index} of {count} has started", flush=True)

draw = random.Random(index)
points = [(x, 3 * x + 2 + draw.gauss(0, 0.1)) for x in (draw.uniform(-1, 1) for _ in range(1000))]
slope = offset = 0.0
for step in range(1, STEPS + 1):
    errors = [(slope * x + offset - y, x) for x, y in points]
    slope -= 0.5 * sum(error * x for error, x in errors) / len(points)
    offset -= 0.5 * sum(error for error, _ in errors) / len(points)
    if step % 50 == 0:
        loss = sum(error * error for error, _ in errors) / len(points)
        print(f"worker {index}: step {step}/{STEPS}, loss {loss:.4f}", flush=True)
print(f"worker {index}: y = {slope:.2f} x + {offset:.2f}", flush=True)
'''

_PYTORCH = '''"""Fit y = 3 x + 2 with DistributedDataParallel; every rank runs this same program.

init_process_group finds the other ranks by variables that tony sets, as torchrun does.
"""

import gc

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 200

dist.init_process_group("gloo")  # nccl on GPUs
rank, world = dist.get_rank(), dist.get_world_size()
print(f"rank {rank} of {world} has joined", flush=True)

torch.manual_seed(rank)  # each rank has its own points
x = torch.rand(1000, 1) * 2 - 1
y = 3 * x + 2 + 0.1 * torch.randn_like(x)
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(1, STEPS + 1):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()  # averages the gradients over all ranks
    optimizer.step()
    if rank == 0 and step % 50 == 0:
        print(f"rank 0: step {step}/{STEPS}, loss {loss.item():.4f}", flush=True)
if rank == 0:
    print(f"rank 0: y = {model.module.weight.item():.2f} x + {model.module.bias.item():.2f}", flush=True)

# All ranks end together, and the model before the connections that it uses.
dist.barrier()
del model
gc.collect()
dist.destroy_process_group()
'''

_TENSORFLOW = '''"""Fit y = 3 x + 2 with MultiWorkerMirroredStrategy; every worker runs this same program.

The strategy finds the other workers by TF_CONFIG, which tony sets.
"""

import tensorflow as tf

STEPS = 200

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # returns when all the workers are there
index = strategy.cluster_resolver.task_id
print(f"worker {index} of {strategy.num_replicas_in_sync} has joined", flush=True)

tf.random.set_seed(index)  # each worker has its own points
x = tf.random.uniform((1000,), -1.0, 1.0)
y = 3.0 * x + 2.0 + 0.1 * tf.random.normal((1000,))
with strategy.scope():
    slope, offset = tf.Variable(0.0), tf.Variable(0.0)


@tf.function
def train_step():
    def replica_step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((slope * x + offset - y) ** 2)
        gradients = tape.gradient(loss, [slope, offset])
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)  # over all workers
        for variable, gradient in zip((slope, offset), gradients):
            variable.assign_sub(0.25 * gradient)
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(replica_step), axis=None)


for step in range(1, STEPS + 1):
    loss = train_step()
    if index == 0 and step % 50 == 0:
        print(f"worker 0: step {step}/{STEPS}, loss {float(loss):.4f}", flush=True)
if index == 0:
    print(f"worker 0: y = {float(slope.numpy()):.2f} x + {float(offset.numpy()):.2f}", flush=True)
'''

_JAX = '''"""Fit y = 3 x + 2 with JAX; every process runs this same program.

With framework = "jax", jax.distributed.initialize() finds the other processes without arguments.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS = 200

jax.distributed.initialize()
index, count = jax.process_index(), jax.process_count()
print(f"process {index} of {count} has joined", flush=True)

# The points are split over the devices of all processes; each process draws its own part.
split = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
draw = np.random.default_rng(index)
own_x = draw.uniform(-1, 1, 1000)
own_y = 3 * own_x + 2 + draw.normal(0, 0.1, 1000)
x = jax.make_array_from_process_local_data(split, own_x)
y = jax.make_array_from_process_local_data(split, own_y)


@jax.jit
def train_step(weights, x, y):
    def loss_of(weights):
        return jnp.mean((weights[0] * x + weights[1] - y) ** 2)  # over the points of all processes

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 0.5 * gradient, loss


weights = jnp.zeros(2)
for step in range(1, STEPS + 1):
    weights, loss = train_step(weights, x, y)
    if index == 0 and step % 50 == 0:
        print(f"process 0: step {step}/{STEPS}, loss {float(loss):.4f}", flush=True)
if index == 0:
    print(f"process 0: y = {float(weights[0]):.2f} x + {float(weights[1]):.2f}", flush=True)
'''

STARTER_JOBS: Mapping[str, StarterJob] = {
    "none": StarterJob(module="", memory="256m", env="", program=_NONE),
    "pytorch": StarterJob(module="torch", memory="1g", env='env = { OMP_NUM_THREADS = "1" }', program=_PYTORCH),
    "tensorflow": StarterJob(
        module="tensorflow", memory="2g", env='env = { TF_CPP_MIN_LOG_LEVEL = "2" }', program=_TENSORFLOW
    ),
    "jax": StarterJob(
        module="jax",
        memory="1g",
        env='env = { JAX_PLATFORMS = "cpu" }      # leave it out on machines with GPUs',
        program=_JAX,
    ),
}


def build_job_file(framework: str) -> str:
    """Return the text of the job file."""
    starter = STARTER_JOBS[framework]
    lines = [
        "# All settings: tony settings --all. Check this file: tony validate job.toml",
        f'framework = "{framework}"',
        f'files = ["{PROGRAM}"]                   # or source = ".", for this whole folder',
        f'command = "python3 {PROGRAM}"',
        '# python = "/path/to/venv"              # of the program: a venv, an archive of one, or an interpreter',
        *([starter.env] if starter.env else []),
        "",
        "[roles.worker]",
        "instances = 2",
        f'memory = "{starter.memory}"',
        "# gpus = 1",
        f"progress_pattern = '{_PROGRESS_PATTERN}'",
    ]
    return "\n".join(lines) + "\n"
