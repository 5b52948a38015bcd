"""The archive of our own programs: the same bytes for the same files, complete, and quick to start from."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tony.schedulers.shipping import runtime_archive
from tony.schedulers.shipping.runtime_archive import store_runtime
from tony.schedulers.yarn.launch_payload import EXECUTOR, MASTER
from tony.storage.cache.object_cache import Cache


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in place of ours."""
    root = tmp_path / "tony"
    for name in (
        "__init__.py",
        "am/a.py",
        "cli/startup.py",
        "client/b.py",
        "mini/c.py",
        "web/pages/e.py",
        "testing/d.py",
        "am/cli/deep.py",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"name = {name!r}\n")
    for name in ("start.sh", "start.py"):
        path = root / "schedulers/shipping/launch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#\n")
    (root / "am/data.bin").write_bytes(b"no program")
    (root / "am/__pycache__").mkdir()
    (root / "am/__pycache__/a.py").write_text("old = 1\n")
    monkeypatch.setattr(runtime_archive, "_find_root", lambda: root)
    return root


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """tony's own files, unpacked as a node does it: read-only."""
    folder = tmp_path_factory.mktemp("node")
    made = Cache(folder / "cache")
    made.prepare()
    stored = store_runtime(made)
    place = folder / "tony"
    with zipfile.ZipFile(made.find_object(stored.digest)) as archive:
        archive.extractall(place)
    yield place
    shutil.rmtree(folder)


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


def compiled(place: Path) -> Path:
    return place / f"programs-{sys.implementation.cache_tag}.zip"


def test_content(cache: Cache, package: Path, tmp_path: Path) -> None:
    """Programs and what is compiled of them, sorted; nothing that only clients need; the starters. Few files."""
    stored = cache.find_object(store_runtime(cache).digest)
    assert names(stored) == ["programs.zip", compiled(Path()).name, "start.py", "start.sh"]
    with zipfile.ZipFile(stored) as archive:
        archive.extractall(tmp_path / "node")
    assert names(tmp_path / "node/programs.zip") == ["tony/__init__.py", "tony/am/a.py", "tony/am/cli/deep.py"]
    assert names(compiled(tmp_path / "node")) == ["tony/__init__.pyc", "tony/am/a.pyc", "tony/am/cli/deep.pyc"]


def test_same_files_same_bytes(tmp_path: Path, package: Path) -> None:
    """Whenever and wherever it is made: times do not count."""
    digests = set()
    for number in range(2):
        one = Cache(tmp_path / f"cache-{number}")
        one.prepare()
        digests.add(store_runtime(one).digest)
        os.utime(package / "am/a.py", (number + 1, number + 1))
    assert len(digests) == 1


def test_unchanged_files_are_not_read_again(cache: Cache, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second submission only looks at sizes and times."""
    first = store_runtime(cache)
    assert not first.reused
    monkeypatch.setattr(runtime_archive, "_build_archive", lambda: pytest.fail("made again"))
    again = store_runtime(cache)
    assert (again.digest, again.size, again.reused) == (first.digest, first.size, True)


def test_changed_file(cache: Cache, package: Path) -> None:
    """A developer's changes to tony are in the next archive."""
    first = store_runtime(cache)
    (package / "am/a.py").write_text("name = 'new'\n")
    second = store_runtime(cache)
    assert not second.reused
    assert second.digest != first.digest


def test_archive_that_was_removed(cache: Cache, package: Path) -> None:
    """What the index says of it does not count then."""
    first = store_runtime(cache)
    cache.find_object(first.digest).unlink()
    again = store_runtime(cache)
    assert (again.digest, again.reused) == (first.digest, False)


def test_damaged_index(cache: Cache, package: Path) -> None:
    first = store_runtime(cache)
    for known in cache.index.iterdir():
        known.write_text("nonsense")
    assert store_runtime(cache).digest == first.digest


def run(programs: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    line = f"import sys; sys.path.insert(0, {str(programs)!r}); {code}"
    return subprocess.run(
        [sys.executable, "-I", "-S", *options, "-c", line], capture_output=True, text=True, check=False, timeout=60
    )


def test_our_programs_start_from_it(unpacked: Path) -> None:
    """With the standard library and nothing else, and nothing from where we are installed."""
    modules = [name.partition(":")[0] for command in (MASTER, EXECUTOR) for name in command.split()]
    code = (
        f"import importlib; [importlib.import_module(name) for name in {modules!r}]; "
        "print(*{m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] == 'tony'}, sep='\\n')"
    )
    done = run(compiled(unpacked), code)
    assert done.stderr == ""
    assert {Path(line).is_relative_to(unpacked) for line in done.stdout.split("\n") if line} == {True}


def test_the_starter_selects_the_fitting_archive(unpacked: Path) -> None:
    """Compiled for the very Python that runs it; the sources if there is none."""
    place = unpacked.parent / "other"
    shutil.copytree(unpacked, place)
    start = [sys.executable, "-I", "-S", str(place / "start.py"), "tony.isolated_interpreter"]
    used = "import tony; print(tony.__file__)"
    starter = (place / "start.py").read_text()
    (place / "start.py").write_text(starter.replace("module = __import__", f"{used}; module = __import__"))
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(compiled(place) / "tony/__init__.pyc")
    compiled(place).rename(place / "programs-jython-27.zip")
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(place / "programs.zip/tony/__init__.py")


def test_every_module_in_it_can_be_imported(unpacked: Path) -> None:
    """None needs what was left out; compiled or not. What programs of users find of us is a `tony` of its own."""
    clients = {
        "tony.__main__",
        "tony.schedulers.yarn.client.cluster_discovery",
        "tony.schedulers.yarn.client.submitter",
    }
    clients |= {"tony.config.files.yaml_reader", "tony.storage.hdfs.hdfs_discovery", "tony.storage.hdfs.hdfs_store"}
    for programs in (unpacked / "programs.zip", compiled(unpacked)):
        modules = [name.rpartition(".")[0].replace("/", ".") for name in names(programs) if "/__init__." not in name]
        modules = [name for name in modules if name not in clients and not name.startswith("tony.python_hooks.")]
        assert len(modules) > 100
        code = f"import importlib; [importlib.import_module(name) for name in {modules!r}]"
        assert run(programs, code).stderr == ""


def test_compiled_files_are_not_looked_at_twice(unpacked: Path) -> None:
    """There is no source beside them, and nothing is written."""
    before = sorted(unpacked.rglob("*"))
    assert run(compiled(unpacked), "import tony.am.container_main, tony.schedulers.yarn.am_container").returncode == 0
    assert sorted(unpacked.rglob("*")) == before


def test_nothing_of_this_machine(unpacked: Path) -> None:
    """Tracebacks on nodes show paths below the package, on every machine; so the bytes are the same for all."""
    code = "import tony.units; print(tony.units.parse_size.__code__.co_filename)"
    assert run(compiled(unpacked), code).stdout.strip() == "tony/units.py"
    assert str(Path(runtime_archive.__file__).parents[3]).encode() not in compiled(unpacked).read_bytes()
