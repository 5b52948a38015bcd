"""Lets `jax.distributed.initialize()` without arguments find the processes of its job.

JAX detects its processes in the environments that it knows (Slurm, Open MPI...), subclasses of its `ClusterEnv`. This
adds one that reads the variables of tony's adapter. JAX is not imported for that: the class is created when the program
imports the module of `ClusterEnv`. Other programs are not affected.

JAX needs Python 3.10 or newer, so this is written for that; `sitecustomize` imports it where the variables are set.
"""

from __future__ import annotations

import os

from tony_import_hook import call_after_import  # type: ignore[import-not-found]  # next to this file

TYPE_CHECKING = False  # importing `typing` would slow down every start of Python
if TYPE_CHECKING:
    from typing import Any

#: Set by the adapter (`tony.frameworks.jax`) in every process that takes part.
ADDRESS = "JAX_COORDINATOR_ADDRESS"
COUNT = "JAX_NUM_PROCESSES"
ID = "JAX_PROCESS_ID"


def install() -> None:
    """Register the class when JAX's module is imported."""
    call_after_import("jax._src.clusters", lambda module: _register(module.ClusterEnv))


def _register(base: Any) -> None:
    class TonyCluster(base):  # type: ignore[misc]
        """The processes of a tony job."""

        name = "tony"

        @classmethod
        def is_env_present(cls) -> bool:
            return ADDRESS in os.environ and COUNT in os.environ and ID in os.environ

        @classmethod
        def get_coordinator_address(cls, *args: Any, **kwargs: Any) -> str:  # they differ between versions of JAX
            return os.environ[ADDRESS]

        @classmethod
        def get_process_count(cls) -> int:
            return int(os.environ[COUNT])

        @classmethod
        def get_process_id(cls) -> int:
            return int(os.environ[ID])

        @classmethod
        def get_local_process_id(cls) -> int | None:
            return None  # the process sees all devices of its task, or those of JAX_LOCAL_DEVICE_IDS

    known = base._cluster_types  # JAX takes the first that is present: a job of tony may itself run inside Slurm
    known.remove(TonyCluster)
    known.insert(0, TonyCluster)
