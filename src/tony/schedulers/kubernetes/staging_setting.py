"""Parses the setting `staging`."""

from __future__ import annotations

from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.schedulers.kubernetes.staging_place import StagingPlace

#: Scheme -> the kind of place.
_KINDS = {"pvc": StagingClaim.from_text}


def parse_staging(text: str) -> StagingPlace | None:
    """Return the place that the setting names; None if it is empty.

    Raises:
        ValueError: it is not valid.
    """
    if not text:
        return None
    if parse := _KINDS.get(text.partition(":")[0]):
        return parse(text)
    raise ValueError('expected "pvc:CLAIM" or "pvc:CLAIM/FOLDER".')
