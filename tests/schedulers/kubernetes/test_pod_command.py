"""The command of a pod: it runs a module of tony's archive, whose pieces are in a volume."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tony.schedulers.kubernetes import pod_command
from tony.schedulers.kubernetes.pod_command import REFUSED_EXIT_CODE
from tony.schedulers.shipping import code_archives
from tony.storage.cache.object_cache import Cache

PROGRAM = """
import sys
def main():
    if sys.path[-1].endswith("/framework"):
        import leader
        print(leader.__file__)
    print(__file__, sys.argv[1:])
    return 3
"""
MODULE = ("tony.am.run", "first", "second")


class Pod:
    """A pod with tony's archive in two pieces."""

    def __init__(self, folder: Path) -> None:
        self.objects, self.work = folder / "objects", folder / "work"
        for path in (self.objects, self.work):
            path.mkdir()
        cache = Cache(folder / "cache")
        cache.prepare()
        stored = code_archives.store_modules(cache)
        content = cache.find_object(stored.digest).read_bytes()
        self.digest = stored.digest
        for number, part in enumerate((content[:100], content[100:])):
            (self.objects / f"{stored.digest}.{number}").write_bytes(part)

    def run(
        self, monkeypatch: pytest.MonkeyPatch, plug_in: tuple[str, int] | None = None
    ) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(pod_command, "OBJECTS", self.objects)
        monkeypatch.setattr(pod_command, "WORK", self.work)
        _, *words = pod_command.build_pod_command((self.digest, 2), MODULE, plug_in)
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    """A small package in place of tony."""
    package = tmp_path / "tony"
    (package / "am").mkdir(parents=True)
    for name, text in (("__init__.py", ""), ("am/__init__.py", ""), ("am/run.py", PROGRAM)):
        (package / name).write_text(text)
    monkeypatch.setattr(code_archives, "_find_root", lambda: package)
    return Pod(tmp_path)


def test_compiled_modules_are_run_by_the_python_that_submitted(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    done = pod.run(monkeypatch)
    path = pod.work / "tony.zip" / sys.implementation.cache_tag / "tony/am/run.pyc"
    assert (done.returncode, done.stdout) == (3, f"{path} ['first', 'second']\n"), done.stderr


def test_a_framework_of_a_user_is_on_the_path(pod: Pod, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a folder, with its data, and behind the standard library."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("leader/__init__.py", "import json, pathlib; name = json.loads")
        archive.writestr("leader/deep/names.json", "[]")
        archive.writestr("json.py", "raise AssertionError")
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    (pod.objects / f"{digest}.0").write_bytes(content.getvalue())
    done = pod.run(monkeypatch, (digest, 1))
    assert done.returncode == 3, done.stderr
    assert (pod.work / "framework/leader/deep/names.json").exists()
    assert done.stdout.splitlines()[0].endswith("leader/__init__.py")
    (pod.objects / f"{digest}.0").write_bytes(b"PK")
    assert f"delete the ConfigMaps tony-{digest[:40]}-*" in pod.run(monkeypatch, (digest, 1)).stderr


def test_sources_are_run_by_another_python(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_command, "_BOOT", pod_command._BOOT.replace("sys.implementation.cache_tag", "'another'"))
    done = pod.run(monkeypatch)
    assert done.stdout.startswith(str(pod.work / "tony.zip/sources/tony/am/run.py")), done.stderr


def test_a_damaged_archive_is_not_run(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    (pod.objects / f"{pod.digest}.1").write_bytes(b"PK")
    done = pod.run(monkeypatch)
    assert f"delete the ConfigMaps tony-{pod.digest[:40]}-*" in done.stderr
    assert (done.returncode, done.stdout) == (REFUSED_EXIT_CODE, "")


def test_an_old_python_is_named(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        pod_command, "_BOOT", pod_command._BOOT.replace("(3, 11)", "(9, 0)").replace("os.execvp(", "os.x(")
    )
    monkeypatch.setattr(pod_command, "_BOOT", pod_command._BOOT.replace("except OSError", "except AttributeError"))
    assert "the image needs Python 3.11 or later; its python3 is 3." in pod.run(monkeypatch).stderr
