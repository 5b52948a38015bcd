"""The setting `staging`: a PersistentVolumeClaim for files of jobs that are too large for the API.

    <claim>/<folder>/
      <sha256>              an object: exactly the bytes that the name is the SHA-256 of
      .<sha256>.part        one that is being received, or whose client was interrupted

Who submits a job writes it (`staging_receiver`); the pods of tasks only read it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from tony.schedulers.kubernetes.launch_payload import STAGING

_FORM = re.compile(r"pvc:(?P<name>[^:/]+)(?:/(?P<folder>[^:]+))?")
_FOLDER = "tony-staging"


@dataclass(frozen=True, slots=True)
class StagingClaim:
    """A folder of a claim.

    Attributes:
        folder: relative to the top of the volume.
    """

    name: str
    folder: str

    @classmethod
    def from_text(cls, text: str) -> StagingClaim:
        """Parse the setting.

        Raises:
            ValueError: it is not valid.
        """
        match = _FORM.fullmatch(text)
        parts = [part for part in (match["folder"] or _FOLDER).split("/") if part] if match else []
        if match is None or {".", ".."} & {*parts}:
            raise ValueError('expected "pvc:CLAIM" or "pvc:CLAIM/FOLDER", without "." and "..".')
        return cls(match["name"], "/".join(parts) or _FOLDER)  # one name for one folder: records are found by it

    def __str__(self) -> str:
        """Return it as `from_text` parses it."""
        return f"pvc:{self.name}/{self.folder}"

    @property
    def path(self) -> Path:
        """The folder, in a pod that has the claim mounted."""
        return STAGING / self.folder

    def build_record_name(self, digest: str) -> str:
        """Return the name of the ConfigMap that says that an object is in this folder."""
        return f"tony-{digest[:40]}-{hashlib.sha256(str(self).encode()).hexdigest()[:8]}"
