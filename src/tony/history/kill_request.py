"""A request to kill a job, kept in its job directory while no AM answers."""

from __future__ import annotations

from dataclasses import dataclass

from tony.history.json_files import read_if_valid, write_json
from tony.model.codec import to_plain
from tony.model.layout import JobFolder

#: Characters of a user's name.
_MAX_ACTOR_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRequest:
    """A request to kill the job.

    Attributes:
        actor: the requesting user.
        now: skip the grace period in which programs may save their work.
    """

    actor: str
    now: bool = False


def save_kill_request(folder: JobFolder, request: KillRequest) -> None:
    """Keep a request for the next AM attempt, or for `finalize_lost`. `now` is never taken back.

    Raises:
        StorageError: the file cannot be written.
    """
    before = load_kill_request(folder)
    if before is None or (request.now and not before.now):
        write_json(folder.kill_request, to_plain(request))


def load_kill_request(folder: JobFolder) -> KillRequest | None:
    """Return the pending request; None if there is none, or if it is invalid."""
    request = read_if_valid(folder.kill_request, KillRequest)
    if request is None:
        return None
    actor = "".join(char for char in request.actor if char.isprintable())[:_MAX_ACTOR_LENGTH]
    return KillRequest(actor=actor, now=request.now)
