"""Images made of local files."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

from tony.mini.kubernetes.image import list_modules, write_image, write_python_image


def test_an_image_of_local_files(tmp_path: Path) -> None:
    """All users can read them, whatever the rights on this machine; programs stay programs."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    secret = tmp_path / "file"
    secret.write_text("text")
    secret.chmod(0o600)
    archive = tmp_path / "image.tar"
    files: dict[str, Path | str] = {"/usr/bin/program": program, "/etc/file": secret, "/etc/passwd": "root:x:0:0\n"}
    write_image(archive, "tony.local/test:1", files, links={"/bin/link": "/usr/bin/program"}, entrypoint=["/bin/link"])
    with tarfile.open(archive) as image:
        (manifest,) = json.load(image.extractfile("manifest.json"))  # type: ignore[arg-type]
        assert ["tony.local/test:1"] == manifest["RepoTags"]
        assert ["/bin/link"] == json.load(image.extractfile(manifest["Config"]))["config"]["Entrypoint"]  # type: ignore[arg-type]
        with tarfile.open(fileobj=image.extractfile(manifest["Layers"][0])) as layer:
            modes = {entry.name: entry.mode for entry in layer if entry.isfile()}
            assert {"usr/bin/program": 0o755, "etc/file": 0o644, "etc/passwd": 0o644} == modes
            assert "/usr/bin/program" == layer.getmember("bin/link").linkname
            assert 0o1777 == layer.getmember("tmp").mode


def test_the_image_of_jobs_has_this_python(tmp_path: Path) -> None:
    """Its files, put below another root, run; without packages and tests."""
    write_python_image(tmp_path / "image.tar", "tony.local/python:3")
    with tarfile.open(tmp_path / "image.tar") as image:
        (manifest,) = json.load(image.extractfile("manifest.json"))  # type: ignore[arg-type]
        with tarfile.open(fileobj=image.extractfile(manifest["Layers"][0])) as layer:
            names = set(layer.getnames())
            target = layer.getmember("usr/local/bin/python3").linkname
    assert str(Path(sys.executable).resolve()) == target
    assert target.lstrip("/") in names
    assert f"{json.__file__}".lstrip("/") in names
    assert not [name for name in names if "site-packages" in name or "/test/" in name]
    assert any(name.endswith(("/libc.so.6", "/ld-linux-x86-64.so.2", "/ld-linux-aarch64.so.1")) for name in names)


def test_optimized_modules_are_left_out(tmp_path: Path) -> None:
    for name in ("a.py", "__pycache__/a.cpython-311.pyc", "__pycache__/a.cpython-311.opt-1.pyc", "test/b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert {"a.py", "a.cpython-311.pyc"} == {path.name for path in list_modules(tmp_path)}
