"""A job's Python works where it is unpacked, is unpacked once, and says clearly what it lacks."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storage.samples import Node, cache_at, make_venv, pack_tree, put_file, tar_of, tree_of, write_tree, zip_of
from tony.errors import ArchiveError, StorageError
from tony.model.staged_files import Placement, StagedItem
from tony.storage.archives.archive_detection import detect
from tony.storage.cache.object_cache import Cache
from tony.storage.environments.environment_cache import Interpreter, find_prefix, from_archive, from_node
from tony.storage.manifest import ManifestEntryKind

#: What conda-pack's script does, as far as we see: it learns its place from its own path and writes it down.
CONDA_UNPACK = """#!/usr/bin/env python
import os, sys
prefix = os.path.abspath(os.path.dirname(os.path.dirname(__file__)))
with open(os.path.join(prefix, "unpacked.txt"), "a") as file:
    file.write(f"{prefix} {sys.argv[0] == __file__} {os.path.dirname(sys.executable)}\\n")
"""


def staged(cache: Cache, archive: Path) -> StagedItem:
    return put_file(cache, archive, Placement.PYTHON, kind=detect(archive))


def run(interpreter: Interpreter, command: str) -> str:
    """Runs a command as a task would: PATH in front, variables set, nothing else of the environment."""
    path = ":".join([*interpreter.python_path, "/usr/bin", "/bin"])
    environment = {"PATH": path, **interpreter.python_env}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a venv that is no longer where it was made."""
    place = make_venv(tmp_path_factory.mktemp("old") / "env")
    archive = pack_tree(tmp_path_factory.mktemp("packed") / "env.tar.gz", place)
    shutil.rmtree(place)
    return archive


def take_at_once(path: Path, item: StagedItem, start: multiprocessing.synchronize.Barrier) -> None:
    start.wait()
    from_archive(Cache(path), item)


@pytest.mark.slow
class TestVenv:
    def test_works_after_the_move(self, tmp_path: Path, venv: Path) -> None:
        """Its package is imported, its script runs, its activate script points to the new place."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, venv)
        interpreter = from_archive(cache, item)
        prefix = cache.unpacked / item.digest
        assert interpreter == Interpreter(python_path=(f"{prefix}/bin",), python_env={"VIRTUAL_ENV": str(prefix)})
        for python in ("python", "python3"):
            assert run(interpreter, f"{python} -c 'import greeter; greeter.main()'") == f"hello from {prefix}"
        assert run(interpreter, "greet") == f"hello from {prefix}"
        assert run(interpreter, f"source {prefix}/bin/activate && echo $VIRTUAL_ENV") == str(prefix)

    def test_is_unpacked_once(self, tmp_path: Path, venv: Path) -> None:
        """The second task finds it; what a task added is still there, so it was not unpacked again."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, venv)
        first = from_archive(cache, item)
        (cache.unpacked / item.digest / "mark").touch()
        assert from_archive(cache, item) == first
        assert (cache.unpacked / item.digest / "mark").exists()

    def test_processes_at_once(self, tmp_path: Path, venv: Path) -> None:
        """Four processes that begin at one moment leave one whole environment."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, venv)
        context = multiprocessing.get_context("spawn")
        start = context.Barrier(4)
        workers = [context.Process(target=take_at_once, args=(cache.path, item, start)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0] * 4
        assert sorted(os.listdir(cache.unpacked)) == [item.digest, f"{item.digest}.json"]
        assert run(from_archive(cache, item), "greet").startswith("hello")

    def test_half_unpacked_is_done_again(self, tmp_path: Path, venv: Path) -> None:
        """A process that was killed in the middle leaves no record: the next one begins anew."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, venv)
        write_tree(cache.unpacked / item.digest, {"bin/python": (b"half", 0o755)})
        write_tree(cache.unpacked / f".{item.digest}.ab", {"bin/python": (b"half", 0o755)})
        assert run(from_archive(cache, item), "greet").startswith("hello")
        assert sorted(os.listdir(cache.unpacked)) == [item.digest, f"{item.digest}.json"]

    def test_moved_cache_is_noticed(self, tmp_path: Path, venv: Path) -> None:
        """The environment knows its place: after the cache was moved it is unpacked again."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, venv)
        from_archive(cache, item)
        shutil.move(tmp_path / "c", tmp_path / "d")
        assert (
            run(from_archive(Cache(tmp_path / "d"), item), "greet") == f"hello from {tmp_path}/d/unpacked/{item.digest}"
        )

    def test_folder_at_the_top_is_fine(self, tmp_path: Path) -> None:
        """`tar -czf env.tar.gz env` is what people type; zip keeps execute bits and links too."""
        place = make_venv(tmp_path / "env")
        cache = cache_at(tmp_path / "c")
        tar = pack_tree(tmp_path / "env.tar.gz", place, "env")
        assert run(from_archive(cache, staged(cache, tar)), "greet").startswith("hello")
        zipped = zip_of(tmp_path / "env.zip", {f"env/{path}": node for path, node in tree_of(place).items()})
        assert run(from_archive(cache, staged(cache, zipped)), "greet").startswith("hello")

    def test_missing_base_interpreter_is_named(self, tmp_path: Path) -> None:
        """A venv borrows its Python; where that is not, the link, the host and the way out are said."""
        cache = cache_at(tmp_path / "c")
        archive = tar_of(
            tmp_path / "env.tar",
            {"pyvenv.cfg": (b"home = /opt/none/bin\n", 0o644), "bin/python": "/opt/none/bin/python3"},
        )
        item = staged(cache, archive)
        with pytest.raises(
            StorageError, match=r"env\.tar.*/opt/none/bin/python3, which does not exist on .*conda-pack"
        ):
            from_archive(cache, item)
        assert os.listdir(cache.unpacked) == []

    def test_a_python_of_the_same_version_elsewhere_is_used(self, tmp_path: Path) -> None:
        """An image has it in another folder than the machine on which the venv was created."""
        cache = cache_at(tmp_path / "c")
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        tree: dict[str, Node] = {
            "pyvenv.cfg": (b"home = /opt/none/bin\nversion = 3\n", 0o644),
            "bin/python3": f"/opt/none/bin/{version}",
            "bin/python": "python3",
            f"lib/{version}/site-packages/x.py": (b"print('found', __file__)", 0o644),
        }
        found = from_archive(cache, staged(cache, tar_of(tmp_path / "env.tar", tree)))
        assert "site-packages/x.py" in run(found, "python3 -m x")
        assert run(found, "python -c 'import sys; print(sys.prefix != sys.base_prefix)'") == "True"

    def test_a_venv_of_a_version_that_is_not_there(self, tmp_path: Path) -> None:
        cache = cache_at(tmp_path / "c")
        tree: dict[str, Node] = {
            "pyvenv.cfg": (b"home = /opt/none/bin\n", 0o644),
            "bin/python": "/opt/none/bin/python3.99",
            "lib/python3.99/site-packages/x.py": (b"", 0o644),
        }
        item = staged(cache, tar_of(tmp_path / "env.tar", tree))
        with pytest.raises(StorageError, match=r"was made for python3\.99, which is not on .*: it has python3\."):
            from_archive(cache, item)

    def test_other_version_on_the_node_is_named(self, tmp_path: Path) -> None:
        """The packages of Python 3.7 are invisible to a newer one; that is said before an import fails."""
        cache = cache_at(tmp_path / "c")
        tree: dict[str, Node] = {
            "pyvenv.cfg": (f"home = {Path(sys.executable).parent}\n".encode(), 0o644),
            "bin/python": os.path.realpath(sys.executable),
            "lib/python3.7/site-packages/x.py": (b"", 0o644),
        }
        item = staged(cache, tar_of(tmp_path / "env.tar", tree))
        with pytest.raises(StorageError, match=r"was made for python3\.7, but .* is Python 3\."):
            from_archive(cache, item)


@pytest.mark.slow
class TestCondaPack:
    def archive(self, folder: Path, script: str = CONDA_UNPACK) -> Path:
        python = f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} "$@"\n'.encode()
        tree: dict[str, Node] = {
            "bin/python3.11": (python, 0o755),
            "bin/python": "python3.11",
            "bin/conda-unpack": (script.encode(), 0o755),
            "conda-meta/history": (b"", 0o644),
        }
        return tar_of(folder / "env.tar.gz", tree, "w:gz")

    def test_is_unpacked_by_its_own_script_once(self, tmp_path: Path) -> None:
        """conda-unpack runs in the final place, with the environment's own Python, and only the first time."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, self.archive(tmp_path))
        prefix = cache.unpacked / item.digest
        for _ in range(2):
            interpreter = from_archive(cache, item)
            assert interpreter == Interpreter(python_path=(f"{prefix}/bin",), python_env={"CONDA_PREFIX": str(prefix)})
        (line,) = (prefix / "unpacked.txt").read_text().splitlines()
        assert line.startswith(f"{prefix} True ")
        assert run(interpreter, "python3 -c 'print(1)'") == "1"

    def test_the_output_of_a_failing_script_is_reported(self, tmp_path: Path) -> None:
        """And nothing is left that could be taken for a whole environment."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, self.archive(tmp_path, "import sys\nsys.exit('prefix too long')\n"))
        with pytest.raises(StorageError, match=r"conda-unpack failed on .* \(exit code 1\): prefix too long"):
            from_archive(cache, item)
        assert os.listdir(cache.unpacked) == []

    def test_script_can_be_found_by_its_environment(self, tmp_path: Path) -> None:
        """It may run for long: a stop of the container has to find it."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, self.archive(tmp_path, "import os, sys\nsys.exit(os.environ['TONY_TASK'])\n"))
        with pytest.raises(StorageError, match=r"exit code 1\): job/c-1/"):
            from_archive(cache, item, {"TONY_TASK": "job/c-1/"})


class TestArchivesThatAreNone:
    def test_no_python_inside(self, tmp_path: Path) -> None:
        """An archive of something else is said to be one."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, zip_of(tmp_path / "data.zip", {"123.xml": (b"", 0o644)}))
        with pytest.raises(ArchiveError, match=r"data\.zip contains no bin/python"):
            from_archive(cache, item)
        assert os.listdir(cache.unpacked) == []

    def test_program_of_another_machine(self, tmp_path: Path) -> None:
        cache = cache_at(tmp_path / "c")
        item = staged(cache, tar_of(tmp_path / "env.tar", {"bin/python": (b"\x7fELF" + b"\1" * 100, 0o755)}))
        with pytest.raises(StorageError, match=r"cannot be started on .*another platform"):
            from_archive(cache, item)

    def test_program_that_is_no_python(self, tmp_path: Path) -> None:
        """Something that runs and is not Python."""
        cache = cache_at(tmp_path / "c")
        item = staged(cache, tar_of(tmp_path / "env.tar", {"bin/python": (b"#!/bin/sh\necho moo\n", 0o755)}))
        with pytest.raises(StorageError, match="is not Python: its output was 'moo"):
            from_archive(cache, item)


def test_prefix_in() -> None:
    """At the top, or in the one folder that has it."""
    file, folder = ManifestEntryKind.FILE, ManifestEntryKind.FOLDER
    assert find_prefix({"bin": folder, "bin/python": file}) == ""
    assert find_prefix({"e": folder, "e/bin": folder, "e/bin/python3": ManifestEntryKind.LINK, "README": file}) == "e"
    assert find_prefix({"a/bin/python": file, "a": folder, "b/bin/python": file, "b": folder}) is None
    assert find_prefix({"bin": folder, "bin/python": folder}) is None
    assert find_prefix({}) is None


class TestOnTheNode:
    def interpreter(self, folder: Path, name: str = "python3.9") -> Path:
        write_tree(folder, {name: (f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode(), 0o755)})
        return folder / name

    def test_python_means_that_interpreter(self, tmp_path: Path) -> None:
        """Under both names, with arguments as they are, and its other programs are found too."""
        python = self.interpreter(tmp_path / "it's here" / "bin")
        write_tree(
            python.parent, {"python3": (b"#!/bin/sh\necho wrong\n", 0o755), "torchrun": (b"#!/bin/sh\necho t\n", 0o755)}
        )
        beside = tmp_path / "beside"
        result = from_node(str(python), beside)
        assert result.python_path == (str(beside), str(python.parent))
        for name in ("python", "python3"):
            assert run(result, f"{name} -c 'import sys; print(sys.argv[1:])' 'a b' c") == "['a b', 'c']"
        assert run(result, "torchrun") == "t"

    def test_scripts_are_not_needed_where_the_names_are_right(self, tmp_path: Path) -> None:
        """A venv that is used in place needs its folder on PATH and nothing more."""
        place = make_venv(tmp_path / "env")
        result = from_node(str(place / "bin" / "python"), tmp_path / "beside")
        assert result == Interpreter(python_path=(str(place / "bin"),), python_env={"VIRTUAL_ENV": str(place)})
        assert from_node(str(place), tmp_path / "beside") == result
        assert not (tmp_path / "beside").exists()
        assert run(result, "greet") == f"hello from {place}"

    def test_venv_behind_scripts_stays_a_venv(self, tmp_path: Path) -> None:
        """A link to its Python would lose its packages; a script does not."""
        place = make_venv(tmp_path / "env")
        (place / "bin" / "mine").symlink_to(os.path.realpath(sys.executable))
        for name in ("python", "python3"):
            (place / "bin" / name).unlink()
        result = from_node(str(place / "bin" / "mine"), tmp_path / "beside")
        assert result.python_path == (str(tmp_path / "beside"), str(place / "bin"))
        assert run(result, "python3 -c 'import greeter; greeter.main()'") == f"hello from {place}"

    def test_name_is_looked_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A program's name is found on the PATH of the node."""
        python = self.interpreter(tmp_path / "bin", "mypython")
        monkeypatch.setenv("PATH", str(python.parent))
        assert from_node("mypython", tmp_path / "b").python_path == (str(tmp_path / "b"), str(python.parent))
        with pytest.raises(StorageError, match='python = "nopython": not found on PATH on '):
            from_node("nopython", tmp_path / "b")

    def test_invalid_interpreters_are_named(self, tmp_path: Path) -> None:
        """Missing, not executable, or a dangling link."""
        write_tree(tmp_path, {"plain": (b"", 0o644), "dangling": "/nowhere/python", "env/bin/python3": "/nowhere/env"})
        with pytest.raises(StorageError, match=f'python = "{tmp_path}/none": {tmp_path}/none does not exist on '):
            from_node(str(tmp_path / "none"), tmp_path / "b")
        with pytest.raises(StorageError, match="is not executable"):
            from_node(str(tmp_path / "plain"), tmp_path / "b")
        with pytest.raises(StorageError, match="link to /nowhere/python"):
            from_node(str(tmp_path / "dangling"), tmp_path / "b")
        with pytest.raises(StorageError, match="its bin/python3 is a link to /nowhere/env"):
            from_node(str(tmp_path / "env"), tmp_path / "b")
