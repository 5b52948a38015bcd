"""The archive of our own programs: the same bytes for the same files, complete, and quick to start from."""

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tony.schedulers.yarn import runtime
from tony.schedulers.yarn.papers import EXECUTOR, MASTER
from tony.schedulers.yarn.runtime import store_runtime
from tony.storage.cache import Cache


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """An empty one."""
    made = Cache(tmp_path / "cache")
    made.prepare()
    return made


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in place of ours."""
    root = tmp_path / "tony"
    for name in (
        "__init__.py",
        "am/a.py",
        "cli/entry.py",
        "client/b.py",
        "mini/c.py",
        "testing/d.py",
        "am/cli/deep.py",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"name = {name!r}\n")
    for name in ("start.sh", "start.py"):
        path = root / "schedulers/yarn/launch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#\n")
    (root / "am/data.bin").write_bytes(b"no program")
    (root / "am/__pycache__").mkdir()
    (root / "am/__pycache__/a.py").write_text("old = 1\n")
    monkeypatch.setattr(runtime, "_root", lambda: root)
    return root


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Our own programs, unpacked as a node does it: nobody may write there."""
    folder = tmp_path_factory.mktemp("node")
    made = Cache(folder / "cache")
    made.prepare()
    stored = store_runtime(made)
    place = folder / "tony"
    with zipfile.ZipFile(made.object(stored.digest)) as archive:
        archive.extractall(place)
    yield place
    shutil.rmtree(folder)


def names(cache: Cache, digest: str) -> list[str]:
    with zipfile.ZipFile(cache.object(digest)) as archive:
        return archive.namelist()


def test_content(cache: Cache, package: Path) -> None:
    """Programs with what is compiled of them, sorted; nothing that only clients need; the starters at the top."""
    compiled = sys.implementation.cache_tag
    assert names(cache, store_runtime(cache).digest) == [
        "tony/__init__.py",
        f"tony/__pycache__/__init__.{compiled}.pyc",
        "tony/am/a.py",
        f"tony/am/__pycache__/a.{compiled}.pyc",
        "tony/am/cli/deep.py",
        f"tony/am/cli/__pycache__/deep.{compiled}.pyc",
        "start.py",
        "start.sh",
    ]


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
    monkeypatch.setattr(runtime, "_archive", lambda: pytest.fail("made again"))
    again = store_runtime(cache)
    assert (again.digest, again.size, again.reused) == (first.digest, first.size, True)


def test_changed_file(cache: Cache, package: Path) -> None:
    """Whoever works on our programs gets what he sees."""
    first = store_runtime(cache)
    (package / "am/a.py").write_text("name = 'new'\n")
    second = store_runtime(cache)
    assert not second.reused
    assert second.digest != first.digest


def test_archive_that_was_removed(cache: Cache, package: Path) -> None:
    """What the index says of it does not count then."""
    first = store_runtime(cache)
    cache.object(first.digest).unlink()
    again = store_runtime(cache)
    assert (again.digest, again.reused) == (first.digest, False)


def test_damaged_index(cache: Cache, package: Path) -> None:
    """Neither does nonsense."""
    first = store_runtime(cache)
    for known in cache.index.iterdir():
        known.write_text("nonsense")
    assert store_runtime(cache).digest == first.digest


def run(place: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    line = f"import sys; sys.path.insert(0, {str(place)!r}); {code}"
    return subprocess.run(
        [sys.executable, "-I", "-S", *options, "-c", line], capture_output=True, text=True, check=False, timeout=60
    )


def test_our_programs_start_from_it(unpacked: Path) -> None:
    """With the standard library and nothing else, and nothing from where we are installed."""
    code = (
        f"import importlib; [importlib.import_module(name) for name in ({MASTER!r}, {EXECUTOR!r})]; "
        "print(*{m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] == 'tony'}, sep='\\n')"
    )
    done = run(unpacked, code)
    assert done.stderr == ""
    assert {Path(line).is_relative_to(unpacked) for line in done.stdout.split("\n") if line} == {True}


def test_every_module_in_it_can_be_imported(unpacked: Path) -> None:
    """None needs what was left out."""
    clients = {"tony.__main__", "tony.schedulers.yarn.finding", "tony.schedulers.yarn.submitter"}
    clients.add("tony.config.yaml_text")
    modules = [
        ".".join(path.relative_to(unpacked).with_suffix("").parts)
        for path in sorted((unpacked / "tony").rglob("*.py"))
        if path.name != "__init__.py"
    ]
    modules = [name for name in modules if name not in clients]
    code = f"import importlib; [importlib.import_module(name) for name in {modules!r}]"
    assert run(unpacked, code).stderr == ""


def test_compiled_files_are_used(unpacked: Path) -> None:
    """As they are: whether the source is newer is not looked at, and nothing is written."""
    before = sorted(unpacked.rglob("*.pyc"))
    done = run(unpacked, "import tony.am.on_yarn", "-v")
    assert done.returncode == 0
    ours = [line for line in done.stderr.splitlines() if str(unpacked / "tony") in line]
    assert any("code object from" in line and ".pyc" in line for line in ours)
    assert not [line for line in ours if "wrote" in line or "could not create" in line]
    assert not [line for line in ours if "code object from" in line and ".pyc" not in line]
    assert sorted(unpacked.rglob("*.pyc")) == before


def test_other_versions_compile_themselves(unpacked: Path) -> None:
    """Files for another version of Python would not even be looked at; of the same name but another kind, refused."""
    compiled = next(unpacked.rglob("errors.*.pyc"))
    content = compiled.read_bytes()
    assert content.startswith(importlib.util.MAGIC_NUMBER)
    try:
        compiled.write_bytes(b"\0\0\r\n" + content[4:])
        assert run(unpacked, "import tony.errors; print(tony.errors.ExitCode)", "-B").returncode == 0
    finally:
        compiled.write_bytes(content)


def test_nothing_of_this_machine(unpacked: Path) -> None:
    """Tracebacks on nodes show paths below the package, whoever submitted; so the bytes are the same for all."""
    code = "import tony.units; print(tony.units.parse_size.__code__.co_filename)"
    assert run(unpacked, code).stdout.strip() == str(unpacked / "tony/units.py")
    buffer = io.BytesIO()
    for path in unpacked.rglob("*.pyc"):
        buffer.write(path.read_bytes())
    assert str(Path(runtime.__file__).parents[3]).encode() not in buffer.getvalue()
