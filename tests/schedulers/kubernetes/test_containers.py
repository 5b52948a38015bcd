"""The pod of a task, seen from within."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tony.errors import StorageError
from tony.model.codec import to_plain
from tony.model.staged_files import Placement, StagedItem
from tony.schedulers.kubernetes import containers, staging_claim
from tony.schedulers.kubernetes.containers import KubernetesExecutorContainer
from tony.schedulers.kubernetes.launch_payload import CREDENTIALS_KEY, encode_payload
from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.testing.sample_jobs import build_credentials


def test_programs_get_the_variables_of_their_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the image, and of what the cluster adds, but not tony's own."""
    (tmp_path / CREDENTIALS_KEY).write_bytes(encode_payload(to_plain(build_credentials())))
    monkeypatch.setattr(containers, "SECRET", tmp_path)
    monkeypatch.setattr(containers, "WORK", tmp_path)
    for name, value in {
        "TONY_POD_NAME": "p",
        "TONY_POD_IP": "10.0.0.1",
        "TONY_NODE_NAME": "node-1",
        "TONY_AM_ADDRESS": "tls:10.0.0.2:7070",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    }.items():
        monkeypatch.setenv(name, value)
    container = KubernetesExecutorContainer()
    found = container.variables()
    assert (found["LD_LIBRARY_PATH"], found["TONY_NODE_NAME"]) == ("/usr/local/cuda/lib64", "node-1")
    assert [name for name in found if name.startswith("TONY_")] == ["TONY_NODE_NAME"]
    assert container.copies_output
    monkeypatch.setenv("TONY_NO_POD_LOGS", "true")
    assert not KubernetesExecutorContainer().copies_output


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesExecutorContainer:
    """A pod with the claim `data`, in which nothing is."""
    (tmp_path / CREDENTIALS_KEY).write_bytes(encode_payload(to_plain(build_credentials())))
    for name in ("SECRET", "WORK", "OBJECTS"):
        monkeypatch.setattr(containers, name, tmp_path)
    monkeypatch.setattr(staging_claim, "STAGING", tmp_path / "claim")
    for name in ("TONY_POD_NAME", "TONY_POD_IP"):
        monkeypatch.setenv(name, "p")
    monkeypatch.setenv("TONY_STAGING", "pvc:data/files")
    return KubernetesExecutorContainer()


ITEM = StagedItem(digest=hashlib.sha256(b"content").hexdigest(), size=7, name="source", placement=Placement.FILE)


@pytest.mark.parametrize("folder", ["", "claim/files"])
def test_files_are_compared_with_their_digest(
    container: KubernetesExecutorContainer, tmp_path: Path, folder: str
) -> None:
    """Wherever they come from: what others have changed is not used."""
    names = [ITEM.digest] if folder else [f"{ITEM.digest}.0", f"{ITEM.digest}.1"]
    place = tmp_path / folder
    place.mkdir(parents=True, exist_ok=True)
    parts = [b"content"] if folder else [b"cont", b"ent"]
    for name, part in zip(names, parts, strict=True):
        (place / name).write_bytes(part)
    assert container.fetch(ITEM).read_bytes() == b"content"
    (place / names[-1]).write_bytes(b"poison")
    changed = "source was changed in " + ("the claim data, file files" if folder else "the cluster")
    with pytest.raises(StorageError, match=f"{changed}.*Delete the ConfigMap tony-{ITEM.digest[:40]}-.* submit again"):
        container.fetch(ITEM)


def test_a_claim_that_was_emptied(container: KubernetesExecutorContainer) -> None:
    name = StagingClaim("data", "files").build_record_name(ITEM.digest)
    with pytest.raises(StorageError, match=rf"was removed from the claim data.*Delete the ConfigMap {name}, and"):
        container.fetch(ITEM)


@pytest.mark.parametrize("kind", ["link", "pipe", "endless"])
def test_only_a_plain_file_of_the_right_size_is_copied_from_the_claim(
    container: KubernetesExecutorContainer, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "claim" / "files" / ITEM.digest
    place.parent.mkdir(parents=True)
    if kind == "link":
        (tmp_path / "other").write_bytes(b"content")
        place.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        with place.open("wb") as file:
            file.truncate(1 << 40)
    expected = "was changed in" if kind == "endless" else "cannot be read from"
    with pytest.raises(StorageError, match=f"source {expected} the claim data, file files"):
        container.fetch(ITEM)
    assert not (container.shared / ITEM.digest).stat().st_size
