"""Sends large objects of a submission to a registry, each as an image."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tony.oci.docker_credentials import load_docker_login
from tony.oci.file_image import LayerFile, build_file_image
from tony.oci.registry_client import RegistryClient
from tony.schedulers.kubernetes.launch_payload import IMAGE_FILE
from tony.schedulers.kubernetes.object_upload import ObjectUpload
from tony.schedulers.kubernetes.staging_registry import StagingRegistry


@contextlib.contextmanager
def upload_to_registry(location: StagingRegistry, upload: ObjectUpload) -> Iterator[Mapping[str, str]]:
    """See `upload_objects`. Nothing is removed: how long images stay is the registry's setting.

    An image that others have pushed under the tag of an object is taken as it is: pods compare its file.
    """
    login = load_docker_login(location.repository, os.environ)
    client = RegistryClient(location.repository, login, upload.note_progress)
    images = {}
    for digest, path in upload.paths.items():
        tag = location.build_tag(digest)
        found = client.find_image(tag)
        if not found:
            upload.announce(digest)
            found = _push_file(client, path, tag, upload)
        images[digest] = location.build_reference(found)
    yield images


def _push_file(client: RegistryClient, path: Path, tag: str, upload: ObjectUpload) -> str:
    """Push an image, and return its digest."""
    layer = LayerFile(path, IMAGE_FILE, upload.note_progress)
    image = build_file_image(layer.compute_digest(), layer.size)
    if not client.has_blob(image.layer_digest):
        client.push_blob(image.layer_digest, layer.size, layer.read_chunks)
    for config in image.configs:
        client.push_config(config)
    for manifest in image.manifests:
        client.push_document(manifest.digest, manifest)
    client.push_document(tag, image.index)
    return image.index.digest
