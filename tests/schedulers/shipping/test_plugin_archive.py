"""A framework's adapter that is not ours goes to the nodes, with the one package that it lives in."""

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.schedulers.yarn.samples import record
from tony.errors import ConfigError, Problem
from tony.schedulers.shipping import plugin_archive
from tony.schedulers.shipping.plugin_archive import store_plug_in
from tony.storage.cache.object_cache import Cache


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Like site-packages: a plug-in that is a package, one that is a module, and others' packages."""
    folder = tmp_path / "site-packages"
    files = {
        "leader/__init__.py": "",
        "leader/adapter.py": "from leader.deep.more import Leader\n",
        "leader/deep/__init__.py": "",
        "leader/deep/more.py": "class Leader:\n    pass\n",
        "leader/names.json": "{}",
        "leader/__pycache__/adapter.cpython-311.pyc": "old",
        "single.py": "class Single:\n    pass\n",
        "numpy/__init__.py": "large = 1\n",
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def unpacked(cache: Cache, module: str, library: Path, target: Path) -> list[str]:
    stored = store_plug_in(cache, record(framework_module=module, framework_path=str(library)))
    assert stored is not None
    with zipfile.ZipFile(cache.find_object(stored.digest)) as archive:
        archive.extractall(target)
        return archive.namelist()


def test_ours(cache: Cache) -> None:
    """Built-in adapters are in the archive of our own programs."""
    assert store_plug_in(cache, record()) is None
    assert list(cache.index.iterdir()) == []


def test_package(cache: Cache, library: Path, tmp_path: Path) -> None:
    """All of its files and no others; it can be imported from where it is unpacked."""
    names = unpacked(cache, "leader.adapter:Leader", library, tmp_path / "node")
    assert names == [
        "leader/__init__.py",
        "leader/adapter.py",
        "leader/names.json",
        "leader/deep/__init__.py",
        "leader/deep/more.py",
    ]
    code = f"import sys; sys.path.append({str(tmp_path / 'node')!r}); from leader.adapter import Leader"
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0


def test_module(cache: Cache, library: Path, tmp_path: Path) -> None:
    """A plug-in may be a single file."""
    assert unpacked(cache, "single:Single", library, tmp_path / "node") == ["single.py"]


def test_made_once(cache: Cache, library: Path) -> None:
    """Until a file of it changes; the same files give the same bytes."""
    job = record(framework_module="leader.adapter:Leader", framework_path=str(library))
    first, again = store_plug_in(cache, job), store_plug_in(cache, job)
    assert first
    assert again == replace(first, reused=True)
    os.utime(library / "leader/adapter.py", (1, 1))
    third = store_plug_in(cache, job)
    assert third
    assert third.digest == first.digest
    (library / "leader/adapter.py").write_text("class Leader:\n    new = 1\n")
    fourth = store_plug_in(cache, job)
    assert fourth
    assert fourth.digest != first.digest


def test_large(cache: Cache, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole library is refused before it is read."""
    monkeypatch.setattr(plugin_archive, "MAX_ARCHIVE_BYTES", 1024)
    (library / "leader/data").write_bytes(bytes(2048))
    job = record(framework_module="leader.adapter:Leader", framework_path=str(library))
    with pytest.raises(ConfigError) as caught:
        store_plug_in(cache, replace(job, spec=replace(job.spec, framework="leader")))
    assert caught.value.problems == (
        Problem(
            key="framework",
            value="leader",
            message="its package leader has 2.1k, but at most 1k can be shipped; keep the adapter in a small "
            "package of its own.",
        ),
    )


@pytest.mark.parametrize("path", [None, "/nowhere"])
def test_nowhere(cache: Cache, path: str | None) -> None:
    """A namespace package, or one inside a zip, has no folder of its own."""
    with pytest.raises(
        ConfigError, match=r"its adapter leader\.adapter:Leader is not in a shippable package or module"
    ):
        store_plug_in(cache, record(framework_module="leader.adapter:Leader", framework_path=path))
