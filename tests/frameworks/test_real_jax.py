"""JAX itself understands what the adapter tells it, and `initialize` needs no arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tony.model.job_spec import JobSpec, Role

if TYPE_CHECKING:
    from tests.frameworks.conftest import RealGang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.on_change("frameworks", "executor", "linux")]

PSUM = """
from functools import partial
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.distributed.initialize()
me = jax.process_index()
mesh = Mesh(jax.devices(), ("all",))
numbers = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("all")), np.array([me + 1.0]))
add_up = partial(jax.lax.psum, axis_name="all")
total = jax.jit(jax.shard_map(add_up, mesh=mesh, in_specs=PartitionSpec("all"), out_specs=PartitionSpec()))(numbers)
print(f"process {me} of {jax.process_count()}: sum {float(total.addressable_data(0)[0])}")
"""


def test_psum(real_gang: RealGang) -> None:
    """Three processes of two tasks add up their numbers; the chief is process 0 wherever it stands in the job."""
    roles = {"worker": Role(procs_per_task=2), "chief": Role()}
    spec = JobSpec(framework="jax", roles=roles, env={"JAX_PLATFORMS": "cpu"})
    lines = real_gang.run(spec, PSUM)
    assert {name: output[-1] for name, output in lines.items()} == {
        name: f"process {number} of 3: sum 6.0" for number, name in enumerate(("chief:0", "worker:0/0", "worker:0/1"))
    }
