"""TensorFlow itself understands what the adapter tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tony.model.job_spec import JobSpec, Role
from tony.model.states import RoleKind

if TYPE_CHECKING:
    from tests.frameworks.conftest import RealGang

pytestmark = [pytest.mark.framework, pytest.mark.slow]

MULTI_WORKER = """
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
me = f"{resolver.task_type}:{resolver.task_id}"
if resolver.task_type == "evaluator":
    print(me, "sees", sorted(resolver.cluster_spec().jobs))
    raise SystemExit

strategy = tf.distribute.MultiWorkerMirroredStrategy()

@tf.function
def add_up():
    mine = strategy.run(lambda: tf.constant(1.0 if resolver.task_type == "chief" else 2.0))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, mine, axis=None)

print(me, strategy.num_replicas_in_sync, "replicas, sum", float(add_up()), strategy.extended.should_checkpoint)
"""

PARAMETER_SERVER = """
import os
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type != "chief":
    os.environ["GRPC_FAIL_FAST"] = "use_caller"
    spec = resolver.cluster_spec()
    tf.distribute.Server(spec, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc").join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)

@tf.function
def step():
    total.assign_add(1.0)

for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
print("sum", float(total.read_value()), "on", total.device)
"""


def test_multi_worker(real_gang: RealGang) -> None:
    """A chief and a worker add up over the network; the evaluator sees itself beside them and holds nobody up."""
    roles = {"chief": Role(), "worker": Role(), "evaluator": Role()}
    lines = real_gang.run(JobSpec(framework="tensorflow", roles=roles), MULTI_WORKER)
    assert {name: output[-1] for name, output in lines.items()} == {
        "chief:0": "chief:0 2 replicas, sum 3.0 True",
        "worker:0": "worker:0 2 replicas, sum 3.0 False",
        "evaluator:0": "evaluator:0 sees ['chief', 'evaluator', 'worker']",
    }


def test_parameter_server(real_gang: RealGang) -> None:
    """The chief's variable lies on the server, and the worker counts it up."""
    roles = {"chief": Role(), "worker": Role(kind=RoleKind.UNTRACKED), "ps": Role(kind=RoleKind.UNTRACKED)}
    lines = real_gang.run(JobSpec(framework="tensorflow", roles=roles), PARAMETER_SERVER)
    assert lines["chief:0"][-1].startswith("sum 20.0 on /job:ps/replica:0/task:0/")
