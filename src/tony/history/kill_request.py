"""What somebody wants of a job whose application master does not answer: kept until one does.

Only to end it can be asked in this way. The file lies in the job's folder, which is its owner's alone: whoever may
write there may end the job in any case.
"""

from __future__ import annotations

from tony.dataclass import dataclass
from tony.errors import RecordError, StorageError
from tony.history.json_files import read_json, write_json
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.layout import JobFolder

#: Characters of a user's name.
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRequest:
    """Somebody wants the job to end.

    Attributes:
        actor: who.
        now: without the grace that programs have to save something.
    """

    actor: str
    now: bool = False


def save_kill_request(folder: JobFolder, request: KillRequest) -> None:
    """Keeps it for the next application master, or for whoever closes the record. One without grace stays so.

    Raises:
        StorageError: the file system refused.
    """
    before = load_kill_request(folder)
    if before is None or (request.now and not before.now):
        write_json(folder.kill_request, to_plain(request))


def load_kill_request(folder: JobFolder) -> KillRequest | None:
    """What was kept; None if nothing was, or if it makes no sense."""
    try:
        request = from_plain(KillRequest, read_json(folder.kill_request), ignore_unknown=True)
    except (RecordError, StorageError, DecodeError):
        return None
    actor = "".join(char for char in request.actor if char.isprintable())[:_LONGEST]
    return KillRequest(actor=actor, now=request.now)
