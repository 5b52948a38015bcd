"""Lets `jax.distributed.initialize()` without arguments find the processes of its job.

JAX detects its processes in the environments that it knows (Slurm, Open MPI...), subclasses of its `ClusterEnv`. This
adds one that reads the variables of tony's adapter. JAX is not imported for that: the class is created when the program
imports the module of `ClusterEnv`. Other programs are not affected.

JAX needs Python 3.10 or newer, so this is written for that; `sitecustomize` imports it where the variables are set.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` would slow down every start of Python
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

#: Set by the adapter (`tony.frameworks.jax`) in every process that takes part.
ADDRESS = "JAX_COORDINATOR_ADDRESS"
COUNT = "JAX_NUM_PROCESSES"
ID = "JAX_PROCESS_ID"
_MODULE = "jax._src.clusters"


def install() -> None:
    """Register the class when JAX's module is imported."""
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds that one module like the other finders, and has the class created after it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _ClusterModuleLoader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _ClusterModuleLoader:
    """Delegates to the module's own loader, then registers the class."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            _register(module.ClusterEnv)
        except Exception:  # an unknown version of JAX: the program can still pass the arguments itself
            pass


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
