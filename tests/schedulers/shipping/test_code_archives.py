"""The archives of code: complete, pure Python, the same bytes for the same files, and quick to start from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from tests.schedulers.yarn.samples import record
from tony.errors import ConfigError, Problem
from tony.schedulers.shipping import code_archives
from tony.schedulers.shipping.code_archives import store_pages, store_plug_in, store_runtime
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
    monkeypatch.setattr(code_archives, "_find_root", lambda: root)
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
    monkeypatch.setattr(code_archives, "_build_runtime", lambda _: pytest.fail("made again"))
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
    clients = {"tony.__main__", "tony.config.files.yaml_reader"}
    for programs in (unpacked / "programs.zip", compiled(unpacked)):
        modules = [name.rpartition(".")[0].replace("/", ".") for name in names(programs) if "/__init__." not in name]
        modules = [name for name in modules if name not in clients and not name.startswith("tony.python_hooks.")]
        assert len(modules) > 100
        code = f"import importlib; [importlib.import_module(name) for name in {modules!r}]"
        assert run(programs, code).stderr == ""


def test_compiled_files_are_not_looked_at_twice(unpacked: Path) -> None:
    """There is no source beside them, and nothing is written."""
    before = sorted(unpacked.rglob("*"))
    assert run(compiled(unpacked), "import tony.am.container_main, tony.schedulers.yarn.containers").returncode == 0
    assert sorted(unpacked.rglob("*")) == before


def test_nothing_of_this_machine(unpacked: Path) -> None:
    """Tracebacks on nodes show paths below the package, on every machine; so the bytes are the same for all."""
    code = "import tony.units; print(tony.units.parse_size.__code__.co_filename)"
    assert run(compiled(unpacked), code).stdout.strip() == "tony/units.py"
    assert str(Path(code_archives.__file__).parents[3]).encode() not in compiled(unpacked).read_bytes()


#: Loads all that pages need, and says what of it does not come out of the two archives.
LOADS = """
import sys
root, more = sys.argv[1:3]
sys.path.insert(0, root)
sys.path.append(more)
import tony
tony.__path__.append(more + "/tony")
import asyncio, tony.web.am_server, tony.web.template_rendering, tony.web.assets, uvicorn.protocols.http.h11_impl
import anyio._backends._asyncio, tony.advice.engine
tony.web.template_rendering.prepare()
assert tony.advice.engine.load_heuristics()[0]
print("charts", "uplot.js" in tony.web.assets.load_assets())
names = {"tony", "starlette", "jinja2", "markupsafe", "uvicorn", "h11", "anyio", "idna", "click"}
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] in names and not (module.__file__ or "").startswith((root, more)):
        print("elsewhere", name, module.__file__)
"""


@pytest.fixture(scope="module")
def with_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Both archives as a node has them."""
    folder = tmp_path_factory.mktemp("node")
    made = Cache(folder / "cache")
    made.prepare()
    for name, stored in (("tony", store_runtime(made)), ("pages", store_pages(made))):
        assert stored is not None
        with zipfile.ZipFile(made.find_object(stored.digest)) as archive:
            archive.extractall(folder / name)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["", f"-{sys.implementation.cache_tag}"])
def test_it_is_complete(with_pages: Path, kind: str) -> None:
    """Compiled or as sources: with our programs and the standard library nothing is missing, no template."""
    root, more = (with_pages / "tony" / f"programs{kind}.zip", with_pages / "pages" / f"pages{kind}.zip")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADS, str(root), str(more)], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "charts True\n", "")


def test_contents_of_the_archive(with_pages: Path) -> None:
    """Python and what pages show; no compiled extensions, and no modules that pages do not need."""
    for archive in (with_pages / "pages").iterdir():
        with zipfile.ZipFile(archive) as opened:
            names = opened.namelist()
        endings = {Path(name).suffix for name in names if not name.endswith("METADATA")}
        assert endings - {".py", ".pyc"} == {".css", ".html", ".js", ".svg"}
        assert {name.split("/")[1] for name in names if name.startswith("tony/")} == {"advice", "web"}
        assert len(names) == len(set(names))


def test_the_same_files_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever and wherever it is made, so that nodes and users share it; unchanged files are not read again."""
    few = code_archives._list_pages_files()
    assert few is not None
    monkeypatch.setattr(code_archives, "_list_pages_files", lambda: few[:20])
    caches = [Cache(tmp_path / name) for name in ("one", "two")]
    for cache in caches:
        cache.prepare()
    one, two = (store_pages(cache) for cache in caches)
    assert one is not None
    assert two is not None
    assert one.digest == two.digest
    monkeypatch.setattr(code_archives, "_build_pages", lambda _: pytest.fail("made again"))
    again = store_pages(caches[0])
    assert again is not None
    assert (again.digest, again.reused) == (one.digest, True)


@pytest.mark.parametrize("package", code_archives._REQUIRED)
def test_without_one_of_the_packages_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """Then the job has its plain page, and nothing is uploaded for another one."""
    real = metadata.distribution

    def some(name: str) -> metadata.Distribution:
        if name == package:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "distribution", some)
    assert store_pages(Cache(tmp_path / "cache")) is None


def test_without_charts_there_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pages can do without is no reason to have none."""
    monkeypatch.setattr(code_archives, "_OPTIONAL", ("no-such-package",))
    files = code_archives._list_pages_files()
    assert files is not None
    assert not [name for name, _, _ in files if "uplot" in name.lower()]


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


def unpack_plug_in(cache: Cache, module: str, library: Path, target: Path) -> list[str]:
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
    names = unpack_plug_in(cache, "leader.adapter:Leader", library, tmp_path / "node")
    assert names == [
        "leader/__init__.py",
        "leader/adapter.py",
        "leader/deep/__init__.py",
        "leader/deep/more.py",
        "leader/names.json",
    ]
    code = f"import sys; sys.path.append({str(tmp_path / 'node')!r}); from leader.adapter import Leader"
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0


def test_module(cache: Cache, library: Path, tmp_path: Path) -> None:
    """A plug-in may be a single file."""
    assert unpack_plug_in(cache, "single:Single", library, tmp_path / "node") == ["single.py"]


def test_one_file_as_two_modules(cache: Cache, library: Path, tmp_path: Path) -> None:
    """It is shipped under the name that each job imports it by."""
    (library / "pack").mkdir()
    (library / "pack/inner.py").write_text("class Inner:\n    pass\n")
    assert unpack_plug_in(cache, "pack.inner:Inner", library, tmp_path / "first") == ["pack/inner.py"]
    assert unpack_plug_in(cache, "inner:Inner", library / "pack", tmp_path / "second") == ["inner.py"]


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
    monkeypatch.setattr(code_archives, "MAX_PLUG_IN_BYTES", 1024)
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
