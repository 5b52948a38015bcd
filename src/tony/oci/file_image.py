"""An image whose only content is one file: for volumes of pods, not to be run.

Its one layer is an uncompressed tar archive, so that its digest depends on nothing but the file. The index has an image
for each architecture, all with that layer: container runtimes unpack only images of their own platform.

Sources: the OCI image specification v1.1, manifest.md, image-index.md, config.md and layer.md.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.errors import StorageError

_ARCHITECTURES = ("amd64", "arm64")
_MEDIA_TYPE = "application/vnd.oci.image"
INDEX_TYPE = f"{_MEDIA_TYPE}.index.v1+json"
MANIFEST_TYPE = f"{_MEDIA_TYPE}.manifest.v1+json"
_CONFIG_TYPE = f"{_MEDIA_TYPE}.config.v1+json"
_LAYER_TYPE = f"{_MEDIA_TYPE}.layer.v1.tar"
_CHUNK_BYTES = 1 << 20
_TAR_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDocument:
    """A JSON document of an image.

    Attributes:
        digest: `sha256:...`.
    """

    media_type: str
    content: bytes
    digest: str


class LayerFile:
    """The layer: a tar archive that is made while it is read.

    Args:
        path: of the local file.
        name: of the file in the archive.
        on_chunk: called for each part that is read.
    """

    def __init__(self, path: Path, name: str, on_chunk: Callable[[], None]) -> None:
        self._path, self._on_chunk = path, on_chunk
        self._content_size = path.stat().st_size
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = self._content_size, 0o444
        self._header = entry.tobuf(tarfile.GNU_FORMAT)
        self._end = bytes(-self._content_size % _TAR_BLOCK_BYTES + 2 * _TAR_BLOCK_BYTES)
        self.size = len(self._header) + self._content_size + len(self._end)

    def read_chunks(self) -> Iterator[bytes]:
        """Yield the archive.

        Raises:
            StorageError: the file cannot be read.
        """
        yield self._header
        try:
            with self._path.open("rb") as file:
                while data := file.read(_CHUNK_BYTES):
                    self._on_chunk()
                    yield data
                if file.tell() != self._content_size:
                    raise StorageError(f"{self._path} changes while it is read")
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read: {error.strerror}") from error
        yield self._end

    def compute_digest(self) -> str:
        """Return `sha256:...`; reads the file."""
        found = hashlib.sha256()
        for data in self.read_chunks():
            found.update(data)
        return f"sha256:{found.hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileImage:
    """The documents of an image; what they name comes before them.

    Attributes:
        layer_digest: `sha256:...`.
    """

    layer_digest: str
    configs: Sequence[ImageDocument]
    manifests: Sequence[ImageDocument]
    index: ImageDocument


def build_file_image(layer_digest: str, layer_size: int) -> FileImage:
    """Return the image with a layer."""
    layer = {"mediaType": _LAYER_TYPE, "digest": layer_digest, "size": layer_size}
    configs, manifests, entries = [], [], []
    for architecture in _ARCHITECTURES:
        platform = {"architecture": architecture, "os": "linux"}
        config = _build_document(
            _CONFIG_TYPE,
            {**platform, "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer_digest]}},
        )
        content = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": _describe(config), "layers": [layer]}
        manifest = _build_document(MANIFEST_TYPE, content)
        configs.append(config)
        manifests.append(manifest)
        entries.append({**_describe(manifest), "platform": platform})
    index = _build_document(INDEX_TYPE, {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})
    return FileImage(layer_digest=layer_digest, configs=configs, manifests=manifests, index=index)


def _build_document(media_type: str, content: object) -> ImageDocument:
    data = json.dumps(content, separators=(",", ":")).encode()
    return ImageDocument(media_type=media_type, content=data, digest=f"sha256:{hashlib.sha256(data).hexdigest()}")


def _describe(document: ImageDocument) -> dict[str, object]:
    return {"mediaType": document.media_type, "digest": document.digest, "size": len(document.content)}
