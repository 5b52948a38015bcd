"""Container images made of local files, without a registry: archives of one layer, as `docker save` writes them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: Commands that programs of jobs may expect; what this machine does not have is left out.
_COMMANDS = (
    *("sh", "bash", "env", "cat", "ls", "cp", "mv", "rm", "ln", "mkdir", "chmod", "touch", "sleep", "date", "id"),
    *("hostname", "uname", "head", "tail", "grep", "sed", "sort", "wc", "kill", "ps", "true", "false", "nproc", "df"),
)
#: Libraries that compiled packages expect to find, as far as Python itself does not need them: those of PEP 600 that a
#: system without a desktop has.
_PACKAGE_LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libutil.so.1")
#: Parts of Python's library that are large, and that no job needs; and folders of packages.
_LEFT_OUT = frozenset({"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"})
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_ACCOUNTS = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n"


def write_image(
    path: Path,
    name: str,
    files: Mapping[str, Path | str],
    *,
    links: Mapping[str, str] | None = None,
    entrypoint: Sequence[str] = (),
) -> None:
    """Write the archive of an image.

    Args:
        name: with its tag.
        files: path in the image -> file of this machine, or text. All users may read them.
        links: path in the image -> target of the symbolic link.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent) as layer:
        _write_layer(layer, files, links or {})
        layer.flush()
        with open(layer.name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        config = {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        text = json.dumps(config).encode()
        config_name = f"{hashlib.sha256(text).hexdigest()}.json"
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
        with tarfile.open(path, "w") as archive:
            _add(archive, config_name, io.BytesIO(text), len(text))
            archive.add(layer.name, f"{digest}/layer.tar")
            listing = json.dumps(manifest).encode()
            _add(archive, "manifest.json", io.BytesIO(listing), len(listing))


def write_python_image(path: Path, name: str) -> None:
    """Write an image with this process's Python, without packages, and a few commands.

    Packages that a job brings along find the libraries that all systems have.
    """
    interpreter = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    commands = [Path(found) for each in _COMMANDS if (found := shutil.which(each, path="/usr/bin:/bin"))]
    modules = list_modules(library)
    programs = [interpreter, *commands, *(module for module in modules if module.suffix == ".so")]
    libraries = find_system_libraries(_PACKAGE_LIBRARIES)
    all_files = {*programs, *modules, *libraries.values(), *find_libraries([*programs, *libraries.values()])}
    files: dict[str, Path | str] = {str(file): file for file in all_files}
    files |= {"/etc/passwd": _ACCOUNTS, "/etc/group": "root:x:0:\nuser:x:1000:\n"}
    # `/usr/bin` may have a command of one of these names: what is first on PATH decides.
    links = {f"/usr/local/bin/{each}": str(interpreter) for each in ("python", "python3")}
    if os.path.islink("/bin"):
        links["/bin"] = os.readlink("/bin")  # scripts begin with `#!/bin/sh`
    write_image(path, name, files, links=links)


def list_modules(library: Path) -> Sequence[Path]:
    """Return the files of Python's library that jobs may need, compiled ones as well."""
    found = []
    for folder, names, files in os.walk(library):
        names[:] = [each for each in names if each not in _LEFT_OUT | _PACKAGES and not each.startswith("config-")]
        found += [Path(folder, file) for file in files if not re.search(r"\.opt-\d\.pyc$|\.a$", file)]
    return found


def find_libraries(programs: Sequence[Path]) -> Sequence[Path]:
    """Return the shared libraries that programs are linked with."""
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    return [Path(found) for found in sorted(set(re.findall(r"(/\S+) \(0x", done.stdout)))]


def find_system_libraries(names: Sequence[str]) -> Mapping[str, Path]:
    """Return the shared libraries of these names that the dynamic linker finds."""
    linker = shutil.which("ldconfig", path="/usr/sbin:/sbin")
    if linker is None:
        return {}
    done = subprocess.run([linker, "-p"], capture_output=True, text=True, check=False)
    found = dict(reversed(re.findall(r"^\s*(\S+) \(.* => (/\S+)$", done.stdout, re.MULTILINE)))
    return {name: Path(found[name]) for name in names if name in found}


def _write_layer(layer: IO[bytes], files: Mapping[str, Path | str], links: Mapping[str, str]) -> None:
    with tarfile.open(fileobj=layer, mode="w", dereference=True) as archive:
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(temporary)
        for name, content in sorted(files.items()):
            if isinstance(content, str):
                _add(archive, name.lstrip("/"), io.BytesIO(content.encode()), len(content.encode()))
                continue
            entry = archive.gettarinfo(content, name.lstrip("/"))
            entry.uid = entry.gid = 0
            entry.type, entry.size = tarfile.REGTYPE, content.stat().st_size  # never a hard link to another entry
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            with open(content, "rb") as file:
                archive.addfile(entry, file)
        for name, target in links.items():
            link = tarfile.TarInfo(name.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)


def _add(archive: tarfile.TarFile, name: str, file: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    archive.addfile(entry, file)
