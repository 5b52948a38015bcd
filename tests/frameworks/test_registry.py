"""Adapters are found by name, built-in and plugged in."""

import subprocess
import sys
from pathlib import Path

import pytest

from tony.frameworks import registry
from tony.frameworks.base import Framework

PLUG_IN = """
from tony.frameworks.base import Framework

class Abacus(Framework):
    name = "abacus"

    def shared(self, spec, cluster):
        return cluster.roles["counter"][0]

    def environment(self, shared, task):
        return [{"ABACUS_LEADER": shared}]

class NotOne:
    pass
"""
BUILT_IN = ("tensorflow", "pytorch", "jax", "none", "standalone")


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with an adapter, as pip would have laid it out."""
    (tmp_path / "tony_abacus.py").write_text(PLUG_IN)
    info = tmp_path / "tony_abacus-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tony-abacus\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tony.frameworks]\nabacus = tony_abacus:Abacus\npytorch = tony_abacus:Abacus\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_ones_are_there(name: str) -> None:
    """Each adapter carries the word that the job file uses."""
    assert registry.load(registry.home_of(name)).name == name


def test_names_begin_with_the_built_in_ones() -> None:
    """In the order in which help shows them."""
    assert registry.names()[:5] == BUILT_IN


@pytest.mark.usefixtures("plug_in")
def test_plug_in_is_found_and_loaded() -> None:
    """An entry point of the group is enough; it cannot replace a built-in adapter."""
    assert registry.names() == (*BUILT_IN, "abacus")
    adapter = registry.load(registry.home_of("abacus"))
    assert isinstance(adapter, Framework)
    assert adapter.name == "abacus"
    assert registry.home_of("pytorch") == "tony.frameworks.pytorch:PyTorch"


@pytest.mark.usefixtures("plug_in")
def test_something_else_is_refused() -> None:
    """A class that is no adapter is named."""
    with pytest.raises(TypeError, match="tony_abacus:NotOne is not a"):
        registry.load("tony_abacus:NotOne")


def test_unknown_name() -> None:
    """Nobody provides it."""
    with pytest.raises(LookupError, match="abacus"):
        registry.home_of("abacus")


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
