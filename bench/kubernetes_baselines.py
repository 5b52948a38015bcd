"""What users of Kubernetes run jobs with instead of tony, and Kueue, built from Go modules into the user's cache:

    .venv/bin/python -m bench.kubernetes_baselines [kubectl] [jobset] [trainer] [kueue]

Rows of the bench and tests leave out what is not built. Each takes minutes the first time, most of them for client
libraries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tony.mini.kubernetes.software import SOURCE, build_version_flags
from tony.mini.software import cache_folder

JOBSET_VERSION, TRAINER_VERSION, _KUEUE_VERSION = "v0.10.1", "v2.1.0", "v0.14.0"
#: Controller -> its module, and the package of the program there.
_MODULES = {
    "jobset": (f"sigs.k8s.io/jobset@{JOBSET_VERSION}", "."),
    "trainer": (f"github.com/kubeflow/trainer/v2@{TRAINER_VERSION}", "./cmd/trainer-controller-manager"),
    "kueue": (f"sigs.k8s.io/kueue@{_KUEUE_VERSION}", "./cmd/kueue"),
}
_KUBECTL = """\
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
"""


def find_program(name: str) -> Path | None:
    """Return a built program; None if it has not been built."""
    path = _folder() / name
    return path if path.exists() else None


def find_module(name: str) -> Path:
    """Return the folder of a controller's module, which has its manifests. `go` downloads it if it is missing."""
    command = ["go", "mod", "download", "-json", _MODULES[name][0]]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True)
    return Path(next(line.split('"')[3] for line in done.stdout.splitlines() if '"Dir"' in line))


def build(name: str) -> None:
    """Build a program.

    Raises:
        CalledProcessError: `go` failed, and has said why.
    """
    with tempfile.TemporaryDirectory(prefix="tony-bench-") as folder:
        if name == "kubectl":  # of the same release as the small Kubernetes, whose versions and checksums it shares
            source, package, mode, flags = Path(folder), ".", "mod", build_version_flags()
            for file in ("go.mod", "go.sum"):
                shutil.copyfile(SOURCE / file, source / file)
            (source / "main.go").write_text(_KUBECTL, encoding="utf-8")
        else:
            source, package, mode, flags = find_module(name), _MODULES[name][1], "readonly", ""
        _folder().mkdir(parents=True, exist_ok=True)
        draft = Path(folder) / "program"
        options = [f"-mod={mode}", "-buildvcs=false", "-trimpath", "-ldflags", f"-s -w {flags}", "-o", str(draft)]
        environ = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        subprocess.run(["go", "build", *options, package], cwd=source, env=environ, check=True)
        shutil.move(draft, _folder() / name)


def _folder() -> Path:
    return cache_folder(os.environ, "bench")


if __name__ == "__main__":
    for each in sys.argv[1:] or ("kubectl", *_MODULES):
        if find_program(each) is None:
            print(f"building {each}", flush=True)
            build(each)
