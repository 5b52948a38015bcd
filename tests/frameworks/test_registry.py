"""Adapters are found by name, built-in and plugged in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tony.frameworks import registry
from tony.frameworks.framework_interface import Framework
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker

#: The example in the manual is the plug-in of these tests.
MANUAL = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
PLUG_IN = re.findall(r"^```python\n(.*?)^```$", MANUAL, re.DOTALL | re.MULTILINE)[-1]
BUILT_IN = ("tensorflow", "pytorch", "jax", "mxnet", "horovod", "none", "standalone")


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with an adapter, as pip would have laid it out."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "leader.py").write_text(PLUG_IN)
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tony.frameworks]\nleader = my_package.leader:Leader\npytorch = my_package.leader:Leader\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_ones_are_there(name: str) -> None:
    """Each adapter carries the word that the job file uses."""
    assert registry.load(registry.home_of(name)).name == name


def test_names_begin_with_the_built_in_ones() -> None:
    """In the order in which help shows them."""
    assert registry.names()[: len(BUILT_IN)] == BUILT_IN


@pytest.mark.usefixtures("plug_in")
def test_plug_in_is_found_and_loaded(make_gang: GangMaker) -> None:
    """An entry point of the group is enough, and the manual's example works."""
    assert registry.names() == (*BUILT_IN, "leader")
    adapter = registry.load(registry.home_of("leader"))
    assert isinstance(adapter, Framework)
    assert adapter.name == "leader"
    gang = make_gang(JobSpec(framework="leader", roles={"worker": Role(procs_per_task=2)}))
    assert gang.environments()[TaskId("worker", 0)] == [
        {"LEADER": "worker-0.example:20000", "LEADER_SLOT": "0"},
        {"LEADER": "worker-0.example:20000", "LEADER_SLOT": "1"},
    ]


@pytest.mark.usefixtures("plug_in")
def test_plug_in_cannot_replace_a_built_in_adapter() -> None:
    assert registry.home_of("pytorch") == "tony.frameworks.pytorch:PyTorch"


def test_something_else_is_refused() -> None:
    """A class that is no adapter is named."""
    with pytest.raises(TypeError, match=r"tony\.model\.job_spec:JobSpec is not a"):
        registry.load("tony.model.job_spec:JobSpec")


def test_unknown_name() -> None:
    with pytest.raises(LookupError, match="leader"):
        registry.home_of("leader")


def test_executors_can_load_them() -> None:
    """With the standard library alone, and without the costly look for plug-ins."""
    homes = [registry.home_of(name) for name in BUILT_IN]
    code = (
        f"import sys; sys.path.insert(0, {str(Path(registry.__file__).parents[2])!r})\n"
        "from tony.frameworks.registry import load\n"
        f"print([load(home).name for home in {homes!r}], 'importlib.metadata' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout == f"{list(BUILT_IN)} False\n", result.stderr
