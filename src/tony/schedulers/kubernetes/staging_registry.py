"""`staging = "oci://REGISTRY/REPOSITORY"`: images of one file each, which the kubelet mounts as volumes of pods.

    <registry>/<repository>:tony-<sha256>      an image with an object as its only file; see `file_image`

Nodes pull an image once, with the job's `pull_secrets`. Pods name it by its digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tony.oci.image_names import Repository
from tony.schedulers.kubernetes.launch_payload import IMAGE_FILE, STAGING
from tony.schedulers.kubernetes.staging_location import StagingLocation, read_object_file

_SCHEME = "oci://"


@dataclass(frozen=True)
class StagingRegistry(StagingLocation):
    """A repository in a registry."""

    repository: Repository

    @classmethod
    def from_text(cls, text: str) -> StagingRegistry:
        """Parse the setting.

        Raises:
            ValueError: it is not valid.
        """
        try:
            return cls(Repository.from_text(text.removeprefix(_SCHEME) if text.startswith(_SCHEME) else ""))
        except ValueError as error:
            raise ValueError(f'expected "oci://REGISTRY/REPOSITORY": {error}') from None

    def __str__(self) -> str:
        return f"{_SCHEME}{self.repository}"

    @property
    def trial_image(self) -> str:
        return self.build_reference(f"sha256:{'0' * 64}")

    def read(self, digest: str, size: int) -> Iterator[bytes]:
        return read_object_file(STAGING / digest / IMAGE_FILE, size)

    def describe(self, digest: str) -> str:
        return f"{self}:{self.build_tag(digest)}"

    def find_remedy(self, digest: str) -> str:
        return "Delete that image from the registry, and submit again."

    def build_tag(self, digest: str) -> str:
        """Return the tag of an object's image."""
        return f"tony-{digest}"

    def build_reference(self, image_digest: str) -> str:
        """Return the name of an image by its digest."""
        return f"{self.repository}@{image_digest}"
