"""The ConfigMaps that the jobs of a namespace share: staged files, and what is known of a claim with larger ones.

A file is one or more immutable ConfigMaps, named by its digest, of at most 1 MiB each: volumes of pods, which kubelets
fetch once for a node. What is there already is not sent again. A file in the claim of `staging` has an empty ConfigMap,
so that no pod is needed to know that it is there; the claim owns it.

Each use of an old ConfigMap is noted in it. One that was not used for long, and that no Job names, is deleted in the
version that was seen: so either it is deleted before a submission notes its use, which then sends the file again, or
the deletion is refused.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tony.kube.api_client import ApiClient, Object, parse_time
from tony.kube.errors import KubeApiError
from tony.kube.resources import CONFIG_MAPS, JOBS
from tony.schedulers.job_store.job_objects import MANAGED_LABELS, PREFIX
from tony.schedulers.kubernetes.launch_payload import CONTENT_KEY, build_piece_name
from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.schedulers.kubernetes.staging_receiver import KEEP_SECONDS

_PIECE_BYTES = 900 << 10
#: Bytes of all files of a job in ConfigMaps: the API server and etcd are no file store.
MAX_STAGED_BYTES = 8 << 20
OBJECT_LABELS: Mapping[str, str] = {**MANAGED_LABELS, f"{PREFIX}part": "object"}
#: Annotation of a ConfigMap: when a submission used it, in seconds since 1970; of a Job: the objects it needs.
_USED, OBJECTS_ANNOTATION = f"{PREFIX}used", f"{PREFIX}objects"
_DAY_SECONDS = 86_400.0
#: Name of such a ConfigMap: of a piece, or that a claim has the object. Others may carry our labels, too.
_NAME = re.compile(r"tony-[0-9a-f]{40}-[0-9a-f]+")


def count_pieces(size: int) -> int:
    """Return the number of ConfigMaps of an object."""
    return max(1, -(-size // _PIECE_BYTES))


def format_digests(digests: Iterable[str]) -> str:
    """Return the annotation of a Job with the objects that it needs."""
    return " ".join(sorted(digest[:40] for digest in digests))


def find_large_objects(sizes: Mapping[str, int], runtime: int) -> Collection[str]:
    """Return the digests of the objects that the API does not take: the largest ones.

    Args:
        sizes: digest -> bytes, of the job's files.
        runtime: bytes of the archive of tony itself.
    """
    left, large = MAX_STAGED_BYTES - runtime, set()
    for digest, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        if size > left:
            large.add(digest)
        left -= size
    return large


class SharedObjects:
    """The shared ConfigMaps of a namespace, as they were when this object was created.

    Args:
        now: seconds since 1970, of the server.

    Raises:
        KubeError: they cannot be listed; so in all methods.
    """

    def __init__(self, client: ApiClient, now: float) -> None:
        self._client, self._now = client, now
        listed = client.list(CONFIG_MAPS, labels=OBJECT_LABELS, metadata_only=True).items
        names = {str(each["metadata"]["name"]): each["metadata"] for each in listed}
        self._found = {name: metadata for name, metadata in names.items() if _NAME.fullmatch(name)}
        self._needed: set[str] = set()

    def upload(self, digest: str, path: Path) -> None:
        """Create the pieces of an object that are missing."""
        for number in range(count_pieces(path.stat().st_size)):
            if not self._use(name := build_piece_name(digest, number)):
                with path.open("rb") as file:
                    file.seek(number * _PIECE_BYTES)
                    self._create(name, {}, file.read(_PIECE_BYTES))

    def is_staged(self, digest: str, claim: StagingClaim) -> bool:
        """Return True if a claim has an object."""
        return self._use(claim.build_record_name(digest))

    def record_staged(self, digest: str, claim: StagingClaim, owner: Object | None) -> None:
        """Note that a claim has an object.

        Args:
            owner: a reference to the claim; None if the user may not read it.
        """
        owners = {"ownerReferences": [owner]} if owner else {}
        metadata = {"annotations": {f"{PREFIX}claim": str(claim), f"{PREFIX}digest": digest}, **owners}
        self._create(claim.build_record_name(digest), metadata, None)

    def list_staged(self, claim: StagingClaim) -> Collection[str]:
        """Return the digests, or their beginnings, of all objects in a claim that are noted or that Jobs need."""
        notes = [each.get("annotations") or {} for each in self._found.values()]
        noted = {each.get(f"{PREFIX}digest", "") for each in notes if each.get(f"{PREFIX}claim") == str(claim)}
        return noted | self._list_needed()

    def _list_needed(self) -> set[str]:
        """Return the beginnings of the digests that Jobs of the namespace need."""
        jobs = self._client.list(JOBS, labels=MANAGED_LABELS, metadata_only=True).items
        notes = [each["metadata"].get("annotations") or {} for each in jobs]
        return {digest for each in notes for digest in each.get(OBJECTS_ANNOTATION, "").split()}

    def delete_unused(self) -> None:
        """Delete the objects that no Job needs, and that were not used for long."""
        old = {
            name: metadata
            for name, metadata in self._found.items()
            if name not in self._needed and self._now - find_last_note(metadata, _USED) > KEEP_SECONDS
        }
        if not old:
            return
        needed = self._list_needed()
        for name, metadata in old.items():
            if name.split("-")[1] not in needed and self._client.delete_version(CONFIG_MAPS, metadata):
                del self._found[name]

    def _use(self, name: str) -> bool:
        """Note the use of a ConfigMap; return False if it does not exist."""
        self._needed.add(name)
        metadata = self._found.get(name)
        if metadata is None:
            return False
        if self._now - find_last_note(metadata, _USED) > _DAY_SECONDS:
            try:
                self._client.patch(CONFIG_MAPS, name, {"metadata": {"annotations": {_USED: str(int(self._now))}}})
            except KubeApiError as error:
                if not error.is_missing:
                    raise
                return False
        return True

    def _create(self, name: str, metadata: Object, data: bytes | None) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": dict(OBJECT_LABELS), **metadata},
            "immutable": True,
        }
        if data is not None:
            body["binaryData"] = {CONTENT_KEY: base64.b64encode(data).decode()}
        try:
            self._client.create_unique(CONFIG_MAPS, body)
        except KubeApiError as error:
            if not error.is_existing:  # another submission was faster
                raise


def find_last_note(metadata: Object, annotation: str) -> float:
    """Return when an object was created, or a time was noted in an annotation later; seconds since 1970."""
    noted = (metadata.get("annotations") or {}).get(annotation, "")
    return max(parse_time(metadata["creationTimestamp"]), float(noted) if noted.isdecimal() else 0.0)
