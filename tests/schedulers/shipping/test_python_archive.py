"""The submitter's own interpreter as an archive: the same bytes, no more than nodes need, and it works anywhere."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts import mentions
from tony.errors import ConfigError, Problem
from tony.schedulers.shipping import python_archive
from tony.schedulers.shipping.python_archive import (
    Libraries,
    OwnInterpreter,
    read_libraries,
    store_interpreter,
    with_search_path,
)
from tony.storage.cache.object_cache import Cache, Stored

TAG = sys.implementation.cache_tag


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """One for all these tests: making the archive takes seconds."""
    made = Cache(tmp_path_factory.mktemp("cache"))
    made.prepare()
    return made


@pytest.fixture(scope="module")
def stored(cache: Cache) -> Stored:
    """The archive of the interpreter that runs the tests."""
    return store_interpreter(cache, "scheduler.yarn.python")


@pytest.fixture(scope="module")
def place(cache: Cache, stored: Stored, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node")
    subprocess.run(["tar", "-xzf", cache.find_object(stored.digest), "-C", folder], check=True)
    return folder


def run(place: Path, code: str, *options: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [place / "bin/python3", "-I", "-S", *options, "-c", code],
        cwd=folder,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_it_works_in_another_place(place: Path) -> None:
    """It is found by its parts and uses nothing of its origin, not even its shared library."""
    code = (
        "import sys, json, ssl, asyncio, ctypes; maps = [l.split(None, 5)[5].strip() for l in open('/proc/self/maps') "
        "if 'libpython' in l]; print(json.dumps([sys.version, sys.base_prefix, ssl.__file__, maps]))"
    )
    done = run(place, code)
    assert done.stderr == ""
    version, prefix, module, maps = json.loads(done.stdout)
    assert (version, prefix) == (sys.version, str(place))
    assert Path(module).is_relative_to(place)
    assert all(Path(path).is_relative_to(place) for path in maps)


def test_through_a_link(place: Path, tmp_path: Path) -> None:
    """In a container's folder there is only a link to where the node has unpacked it."""
    (tmp_path / "tony-python").symlink_to(place)
    line = ["./tony-python/bin/python3", "-I", "-S", "-c", "import json, sys; print(sys.version_info[:2])"]
    done = subprocess.run(line, cwd=tmp_path, env={}, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (f"{sys.version_info[:2]}\n", "")


def test_compiled_files_are_used(place: Path) -> None:
    """Programs cannot write there on nodes, so what is not compiled would be compiled at every start."""
    done = run(place, "import asyncio, logging", "-v")
    ours = [line for line in done.stderr.splitlines() if "code object from" in line and str(place) in line]
    assert ours
    assert not [line for line in ours if ".pyc" not in line]
    assert not [line for line in done.stderr.splitlines() if "wrote" in line]


def test_left_out(place: Path) -> None:
    """No packages, no tests, nothing for screens, no static libraries."""
    library = next((place / "lib").glob("python3.*"), None) or next((place / "lib64").glob("python3.*"))
    there = {path.name for path in library.iterdir()}
    assert {"os.py", "asyncio", "lib-dynload", "encodings"} <= there
    assert not there & {"test", "site-packages", "dist-packages", "idlelib", "ensurepip", "tkinter", "turtledemo"}
    assert not list(place.rglob("*.a"))
    assert (library / f"__pycache__/os.{TAG}.pyc").is_file()


def test_made_once(cache: Cache, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same interpreter is not even read a second time."""
    monkeypatch.setattr(python_archive, "_build", lambda *_: pytest.fail("made again"))
    assert store_interpreter(cache, "scheduler.yarn.python") == replace(stored, reused=True)


def test_nothing_of_this_machine(cache: Cache, stored: Stored) -> None:
    """Neither owners nor times, and sorted: who makes it again gets the same bytes."""
    with tarfile.open(cache.find_object(stored.digest)) as archive:
        members = archive.getmembers()
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 946684800)}
    assert members[0].name == "bin/python3"
    assert {m.mode for m in members} == {0o755, 0o644}
    assert all(m.isreg() for m in members)


def small(tmp_path: Path, program: str) -> OwnInterpreter:
    """Something like an interpreter, which is a shell script."""
    library = tmp_path / "prefix/lib/python3.99"
    library.mkdir(parents=True)
    (library / "os.py").write_text("one = 1\n")
    (library / "bad.py").write_text("this is no Python\n")
    (library / "link.py").symlink_to("/nowhere")
    path = tmp_path / "prefix/bin/python3.99"
    path.parent.mkdir()
    path.write_text(program)
    return OwnInterpreter(prefix=tmp_path / "prefix", program=path, library=library, version="3.99")


def refusal(cache: Cache, own: OwnInterpreter) -> str:
    with pytest.raises(ConfigError) as caught:
        store_interpreter(cache, "scheduler.yarn.python", own)
    problem: Problem = caught.value.problems[0]
    assert (problem.key, problem.value) == ("scheduler.yarn.python", "own")
    end = ". Submit with an interpreter installed by uv or pyenv, or set this to an interpreter on the nodes."
    assert problem.message.startswith(f"{own.program} cannot be shipped: ")
    assert problem.message.endswith(end)
    return problem.message.removeprefix(f"{own.program} cannot be shipped: ").removesuffix(end)


def test_no_program(cache: Cache, tmp_path: Path) -> None:
    assert mentions(refusal(cache, small(tmp_path, "#!/bin/sh\nexec python3\n")), "64-bit", "ELF")


def with_elf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes scripts for programs without shared libraries."""
    monkeypatch.setattr(python_archive, "read_libraries", lambda _: Libraries())


def test_a_python_that_does_not_run_is_refused(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has its own error."""
    with_elf(monkeypatch)
    own = small(tmp_path, "#!/bin/sh\necho first >&2\necho no modules here >&2\nexit 3\n")
    assert mentions(refusal(cache, own), "here")


def test_still_uses_the_old_place(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs here, and would not on a node."""
    with_elf(monkeypatch)
    own = small(tmp_path, f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} "$@"\n')
    assert refusal(cache, own).startswith("in another folder it still uses /")


def test_modules_outside_the_prefix_are_refused(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that was put together from two places."""
    with_elf(monkeypatch)
    own = replace(small(tmp_path, "#!/bin/sh\n"), prefix=tmp_path / "other")
    assert refusal(cache, own) == f"its modules are in {own.library}, outside {own.prefix}"


def test_nothing_is_left_of_a_trial(cache: Cache, stored: Stored) -> None:
    """The folder where it was tried is gone."""
    assert not [path for path in cache.path.iterdir() if path.name.startswith(".python-")]


def test_another_interpreter_is_another_archive(tmp_path: Path) -> None:
    """A program or a library that was replaced is noticed."""
    own = small(tmp_path, "one")
    first = python_archive._compute_fingerprint(own)
    assert python_archive._compute_fingerprint(own) == first
    shutil.copy(own.program, tmp_path / "copy")
    own.program.write_text("another")
    assert python_archive._compute_fingerprint(own) != first


STRINGS = b"\0libpython3.11.so.1.0\0libc.so.6\0/home/ann/python/lib\0rest"


def build_program(*, path_tag: int | None = 29) -> bytes:
    """As small as one can be: a header, two segments, a table of four entries, its strings."""
    entries = [(1, STRINGS.index(b"libpython")), (1, STRINGS.index(b"libc")), (5, 0x1000 + 512)]
    if path_tag is not None:
        entries.append((path_tag, STRINGS.index(b"/home")))
    table = b"".join(struct.pack("<qQ", *entry) for entry in [*entries, (0, 0), (1, 999_999)])
    header = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    )
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0x1000, 0x1000, 1024, 1024, 4096)
    dynamic = struct.pack("<IIQQQQQQ", 2, 6, 256, 0x1100, 0x1100, len(table), len(table), 8)
    content = (header + load + dynamic).ljust(256, b"\0") + table
    return content.ljust(512, b"\0") + STRINGS.ljust(512, b"\0")


@pytest.mark.parametrize("tag", [15, 29])
def test_needs_and_places(tag: int) -> None:
    """Old and new ways to name a folder."""
    assert read_libraries(build_program(path_tag=tag)) == Libraries(
        needed=("libpython3.11.so.1.0", "libc.so.6"),
        path="/home/ann/python/lib",
        path_at=512 + STRINGS.index(b"/home"),
    )


def test_no_place() -> None:
    assert read_libraries(build_program(path_tag=None)) == Libraries(needed=("libpython3.11.so.1.0", "libc.so.6"))


def test_another_place() -> None:
    changed = with_search_path(build_program(), "$ORIGIN/../lib")
    assert read_libraries(changed).path == "$ORIGIN/../lib"
    assert read_libraries(changed).needed == read_libraries(build_program()).needed
    assert len(changed) == len(build_program())
    assert sum(a != b for a, b in zip(changed, build_program(), strict=True)) <= len("/home/ann/python/lib")


@pytest.mark.parametrize(
    ("given", "folder", "message"),
    [
        (
            build_program(),
            "$ORIGIN/" + "x" * 40,
            r"its RPATH is too short for the path of its libraries \(/home/ann/python/lib\)",
        ),
        (build_program(path_tag=None), "x", r"its RPATH is too short for the path of its libraries \(it has none\)"),
        (b"#!/bin/sh\n", "x", r"it is not a 64-bit Linux program \(ELF\)"),
        (b"\x7fELF\x01\x01" + bytes(100), "x", r"it is not a 64-bit Linux program \(ELF\)"),
    ],
)
def test_refused(given: bytes, folder: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        with_search_path(given, folder)


def test_of_this_machine() -> None:
    needed = read_libraries(Path(sys.executable).resolve().read_bytes()).needed
    assert any(name.startswith("libc.") for name in needed)
