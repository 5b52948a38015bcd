"""Staged files as ConfigMaps: immutable, named by their digests, shared by the jobs of a namespace.

A ConfigMap has at most 1 MiB, so a file has several. What is there already is not sent again. They are volumes of pods,
so that kubelets fetch each once for a node.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from tony.errors import ConfigError, Problem
from tony.kube.api_client import ApiClient
from tony.kube.errors import KubeApiError
from tony.kube.resources import CONFIG_MAPS
from tony.schedulers.kubernetes.launch_payload import CONTENT_KEY, build_piece_name
from tony.units import format_size

_PIECE_BYTES = 900 << 10
#: Bytes of all staged files of a job: the API server and etcd are no file store.
MAX_STAGED_BYTES = 8 << 20
OBJECT_LABELS: Mapping[str, str] = {"app.kubernetes.io/managed-by": "tony", "tony.dev/part": "object"}


def count_pieces(size: int) -> int:
    """Return the number of ConfigMaps of an object."""
    return max(1, -(-size // _PIECE_BYTES))


def upload_objects(client: ApiClient, objects: Mapping[str, Path]) -> int:
    """Create what is missing; return the number of bytes that were sent.

    Args:
        objects: digest -> a local file with the object.

    Raises:
        ConfigError: they are too large.
        KubeError: the API server refuses, or cannot be reached.
    """
    total = sum(path.stat().st_size for path in objects.values())
    if total > MAX_STAGED_BYTES:
        most = format_size(MAX_STAGED_BYTES)
        text = f"the job's files have {format_size(total)}; the cluster takes {most} through its API"
        raise ConfigError([Problem(key="source", message=f"{text}. Leave files out (.tonyignore), or use an image.")])
    there = client.list(CONFIG_MAPS, labels=OBJECT_LABELS, metadata_only=True).items
    names = {each["metadata"]["name"] for each in there}
    sent = 0
    for digest, path in objects.items():
        for number in range(count_pieces(path.stat().st_size)):
            if (name := build_piece_name(digest, number)) not in names:
                with path.open("rb") as file:
                    file.seek(number * _PIECE_BYTES)
                    data = file.read(_PIECE_BYTES)
                _create_piece(client, name, data)
                sent += len(data)
    return sent


def _create_piece(client: ApiClient, name: str, data: bytes) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": dict(OBJECT_LABELS)},
        "immutable": True,
        "binaryData": {CONTENT_KEY: base64.b64encode(data).decode()},
    }
    try:
        client.create_unique(CONFIG_MAPS, body)
    except KubeApiError as error:
        if not error.is_existing:  # another submission was faster
            raise
