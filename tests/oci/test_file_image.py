"""An image of one file, whose digest is a function of the file."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from tony.errors import StorageError
from tony.oci.file_image import LayerFile, build_file_image


def build_layer(folder: Path, content: bytes = b"content") -> LayerFile:
    """Return the layer of the file `f` with this content."""
    (folder / "f").write_bytes(content)
    return LayerFile(folder / "f", "object", lambda: None)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, (1 << 20) + 1])
def test_a_layer_has_the_file(tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    layer = build_layer(tmp_path, content)
    data = b"".join(layer.read_chunks())
    assert layer.size == len(data)
    assert layer.compute_digest() == f"sha256:{hashlib.sha256(data).hexdigest()}"
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        (entry,) = archive.getmembers()
        found = archive.extractfile(entry)
        assert found is not None
        assert (entry.name, entry.mode, found.read()) == ("object", 0o444, content)


def test_the_digest_depends_on_nothing_but_the_content(tmp_path: Path) -> None:
    """Nodes and registries have it once, also if several users push it."""
    layer = build_layer(tmp_path)
    image = build_file_image(layer.compute_digest(), layer.size)
    assert image.index.digest == "sha256:ab46738e0996518538cd98bd0a0de8015a4fadd98fc100a1d0e9fc2a086df276"


def test_documents_name_each_other(tmp_path: Path) -> None:
    layer = build_layer(tmp_path)
    image = build_file_image(layer.compute_digest(), layer.size)
    assert [each["digest"] for each in json.loads(image.index.content)["manifests"]] == [
        each.digest for each in image.manifests
    ]
    for manifest, config in zip(image.manifests, image.configs, strict=True):
        content = json.loads(manifest.content)
        assert content["config"]["digest"] == config.digest
        assert [each["digest"] for each in content["layers"]] == [image.layer_digest]
        assert json.loads(config.content)["rootfs"]["diff_ids"] == [image.layer_digest]


def test_a_file_of_more_than_8_gib_has_a_header_that_says_so(tmp_path: Path) -> None:
    """The octal size of the oldest form ends there."""
    with (tmp_path / "f").open("wb") as file:
        file.truncate(9 << 30)
    layer = LayerFile(tmp_path / "f", "object", lambda: None)
    entry = tarfile.TarInfo.frombuf(next(layer.read_chunks()), "utf-8", "strict")
    assert entry.size == 9 << 30


def test_a_file_that_grows_is_an_error(tmp_path: Path) -> None:
    layer = build_layer(tmp_path)
    (tmp_path / "f").write_bytes(b"contents")
    with pytest.raises(StorageError, match="changes while it is read"):
        layer.compute_digest()
