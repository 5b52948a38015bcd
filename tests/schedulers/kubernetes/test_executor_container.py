"""The pod of a task, seen from within."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.schedulers.kubernetes.executor_pod import CONTENT, ITEM, check_fetch, enter_pod
from tony.schedulers.kubernetes import staging_claim
from tony.schedulers.kubernetes.executor_container import KubernetesExecutorContainer
from tony.schedulers.kubernetes.staging_claim import StagingClaim


def test_programs_get_the_variables_of_their_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the image, and of what the cluster adds, but not tony's own."""
    own = {"TONY_NODE_NAME": "node-1", "TONY_AM_ADDRESS": "tls:10.0.0.2:7070"}
    for name, value in {**own, "LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}.items():
        monkeypatch.setenv(name, value)
    container = enter_pod(tmp_path, monkeypatch)
    found = container.variables()
    assert (found["LD_LIBRARY_PATH"], found["TONY_NODE_NAME"]) == ("/usr/local/cuda/lib64", "node-1")
    assert [name for name in found if name.startswith("TONY_")] == ["TONY_NODE_NAME"]
    assert container.copies_output
    monkeypatch.setenv("TONY_NO_POD_LOGS", "true")
    assert not KubernetesExecutorContainer().copies_output


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesExecutorContainer:
    """A pod with the claim `data`, in which nothing is."""
    monkeypatch.setattr(staging_claim, "STAGING", tmp_path / "claim")
    return enter_pod(tmp_path, monkeypatch, "pvc:data/files")


@pytest.mark.parametrize("folder", ["", "claim/files"])
def test_files_are_compared_with_their_digest(
    container: KubernetesExecutorContainer, tmp_path: Path, folder: str
) -> None:
    """Wherever they come from: what others have changed is not used."""
    names = [ITEM.digest] if folder else [f"{ITEM.digest}.0", f"{ITEM.digest}.1"]
    place = tmp_path / folder
    place.mkdir(parents=True, exist_ok=True)
    parts = [CONTENT] if folder else [CONTENT[:3], CONTENT[3:]]
    for name, part in zip(names, parts, strict=True):
        (place / name).write_bytes(part)
    check_fetch(container)
    (place / names[-1]).write_bytes(b"poison")
    changed = "source was changed in " + ("the claim data, file files" if folder else "the cluster")
    check_fetch(container, f"{changed}.*Delete the ConfigMap tony-{ITEM.digest[:40]}-.* submit again")


def test_a_claim_that_was_emptied(container: KubernetesExecutorContainer) -> None:
    name = StagingClaim("data", "files").build_record_name(ITEM.digest)
    check_fetch(container, rf"was removed from the claim data.*Delete the ConfigMap {name}, and")


@pytest.mark.parametrize("kind", ["link", "pipe", "endless"])
def test_only_a_plain_file_of_the_right_size_is_copied_from_the_claim(
    container: KubernetesExecutorContainer, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "claim" / "files" / ITEM.digest
    place.parent.mkdir(parents=True)
    if kind == "link":
        (tmp_path / "other").write_bytes(CONTENT)
        place.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        with place.open("wb") as file:
            file.truncate(1 << 40)
    expected = "was changed in" if kind == "endless" else "cannot be read from"
    check_fetch(container, f"source {expected} the claim data, file files")
    assert not (container.shared / ITEM.digest).stat().st_size
