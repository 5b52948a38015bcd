"""The pod of a task, as its executor sees it, and a file that it is to have."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tony.errors import StorageError
from tony.model.codec import to_plain
from tony.model.staged_files import Placement, StagedItem
from tony.schedulers.kubernetes import executor_container
from tony.schedulers.kubernetes.executor_container import KubernetesExecutorContainer
from tony.schedulers.kubernetes.launch_payload import CREDENTIALS_KEY, encode_payload
from tony.testing.sample_jobs import build_credentials

CONTENT = b"content"
ITEM = StagedItem(digest=hashlib.sha256(CONTENT).hexdigest(), size=7, name="source", placement=Placement.FILE)


def enter_pod(folder: Path, monkeypatch: pytest.MonkeyPatch, staging: str = "") -> KubernetesExecutorContainer:
    """Make this process the executor of a pod, all of whose volumes are one folder.

    Args:
        staging: the setting.
    """
    (folder / CREDENTIALS_KEY).write_bytes(encode_payload(to_plain(build_credentials())))
    for name in ("SECRET", "WORK", "OBJECTS"):
        monkeypatch.setattr(executor_container, name, folder)
    for name, value in {"TONY_POD_NAME": "p", "TONY_POD_IP": "10.0.0.1", "TONY_STAGING": staging}.items():
        monkeypatch.setenv(name, value)
    return KubernetesExecutorContainer()


def check_fetch(container: KubernetesExecutorContainer, error: str = "") -> None:
    """Assert that the executor takes the file, or says why not."""
    if error:
        with pytest.raises(StorageError, match=error):
            container.fetch(ITEM)
    else:
        assert container.fetch(ITEM).read_bytes() == CONTENT
