"""The archive of what serves pages: complete, pure Python, the same bytes for the same files, and nothing besides."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tony.schedulers.shipping import web_code_archive
from tony.schedulers.shipping.runtime_archive import store_runtime
from tony.schedulers.shipping.web_code_archive import store_pages
from tony.storage.cache.object_cache import Cache

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
print("charts", tony.web.assets.load_assets().has_charts)
names = {"tony", "starlette", "jinja2", "markupsafe", "uvicorn", "h11", "anyio", "idna", "click"}
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] in names and not (module.__file__ or "").startswith((root, more)):
        print("elsewhere", name, module.__file__)
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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
def test_it_is_complete(unpacked: Path, kind: str) -> None:
    """Compiled or as sources: with our programs and the standard library nothing is missing, no template."""
    root, more = (unpacked / "tony" / f"programs{kind}.zip", unpacked / "pages" / f"pages{kind}.zip")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADS, str(root), str(more)], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "charts True\n", "")


def test_contents_of_the_archive(unpacked: Path) -> None:
    """Python and what pages show; no compiled extensions, and no modules that pages do not need."""
    for archive in (unpacked / "pages").iterdir():
        with zipfile.ZipFile(archive) as opened:
            names = opened.namelist()
        endings = {Path(name).suffix for name in names if not name.endswith("METADATA")}
        assert endings - {".py", ".pyc"} == {".css", ".html", ".js", ".svg"}
        assert {name.split("/")[1] for name in names if name.startswith("tony/")} == {"advice", "web"}
        assert len(names) == len(set(names))


def test_the_same_files_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever and wherever it is made, so that nodes and users share it; unchanged files are not read again."""
    few = web_code_archive._list_files()
    assert few is not None
    monkeypatch.setattr(web_code_archive, "_list_files", lambda: few[:20])
    caches = [Cache(tmp_path / name) for name in ("one", "two")]
    for cache in caches:
        cache.prepare()
    one, two = (store_pages(cache) for cache in caches)
    assert one is not None
    assert two is not None
    assert one.digest == two.digest
    monkeypatch.setattr(web_code_archive, "_build_archive", lambda _: pytest.fail("made again"))
    again = store_pages(caches[0])
    assert again is not None
    assert (again.digest, again.reused) == (one.digest, True)


@pytest.mark.parametrize("package", web_code_archive._REQUIRED)
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
    monkeypatch.setattr(web_code_archive, "_OPTIONAL", ("no-such-package",))
    files = web_code_archive._list_files()
    assert files is not None
    assert not [name for name, _, _ in files if "uplot" in name.lower()]
