"""`jax.distributed.initialize()` without arguments, with a package that has JAX's way of finding clusters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tony.executor.program.program_environment import build_variables

#: JAX's registry of cluster environments, as far as programs notice it.
CLUSTERS = """
class ClusterEnv:
    _cluster_types = []
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._cluster_types.append(cls)
class Slurm(ClusterEnv):
    name = "slurm"
    @classmethod
    def is_env_present(cls):
        return True
"""
ASK = """
from jax._src import clusters
env = next(env for env in clusters.ClusterEnv._cluster_types if env.is_env_present())
print(env.name, *([env.get_coordinator_address({arguments}), env.get_process_count(), env.get_process_id(),
      env.get_local_process_id()] if env.name == "tony" else []))
print(type(clusters.__loader__).__name__, type(clusters.__spec__.loader).__name__)
"""
JOB = {"JAX_COORDINATOR_ADDRESS": "n1:41001", "JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "3"}


@pytest.fixture
def jax(tmp_path: Path) -> Path:
    package = tmp_path / "site/jax/_src/clusters"
    package.mkdir(parents=True)
    for folder in (package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "__init__.py").write_text(CLUSTERS)
    return tmp_path / "site"


def printed(jax: Path, job: dict[str, str], code: str = ASK, *, stacks: bool = False) -> list[str]:
    """The words that a program prints which the executor starts with these variables."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(jax), **job}
    env = {**own, **build_variables(own, None, hooks=stacks)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("arguments", ["", "300", "timeout_secs=300, override_coordinator_port=None"])
def test_jax_finds_the_processes_of_its_job(jax: Path, arguments: str, stacks: bool) -> None:
    """Whatever `python_stacks` says, before it finds another cluster, and with the arguments of any of its versions."""
    words = printed(jax, JOB, ASK.format(arguments=arguments), stacks=stacks)
    assert words[:5] == ["tony", "n1:41001", "4", "3", "None"]
    assert words[5:] == ["SourceFileLoader", "SourceFileLoader"], "the module is loaded as it would be without us"


def test_a_program_of_no_gang_is_left_alone(jax: Path) -> None:
    assert printed(jax, {})[0] == "slurm"
    assert printed(jax, {}, stacks=True)[0] == "slurm"


def test_jax_is_not_imported_for_it(jax: Path) -> None:
    assert printed(jax, JOB, "import sys; print('jax' in sys.modules)") == ["False"]


def test_a_jax_without_that_class_is_loaded_all_the_same(jax: Path) -> None:
    """An older or a later one: it says itself what it misses."""
    (jax / "jax/_src/clusters/__init__.py").write_text("loaded = 1\n")
    assert printed(jax, JOB, "from jax._src import clusters; print(clusters.loaded)") == ["1"]
