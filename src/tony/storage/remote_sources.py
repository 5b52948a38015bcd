"""What a job's keys ask for of a cluster's file system. Only loaded for jobs that name an address."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tony.model.staged import InPlace, Placement, StagedItem
from tony.storage.archive_format import KNOWN, detect, unsupported
from tony.storage.remote_files import RemoteFile, RemoteFiles, RemoteFolder
from tony.storage.staging_requests import StagingRejectedError, StagingRequest

#: Bytes of a file that are looked at to tell what kind of archive it is.
_HEAD = 64 * 1024
#: In HDFS no file can be executed; here any of them may be a program. So it is with YARN's own resources.
_MODE = 0o755
#: As many folders that are left out are named.
_NAMED = 5


def archive(address: str, placement: Placement, files: RemoteFiles) -> StagingRequest:
    """A source, or a Python.

    Raises:
        Refused: it is no archive.
        ValueError: it is not there, or may not be read.
        TonyError: the file system does not answer.
    """
    found = files.look(address)
    if isinstance(found, RemoteFolder):
        raise StagingRejectedError(
            "it is a folder. Of HDFS only an archive can be taken here: pack it, or name it under `files`."
        )
    return _unpacked(found, found.name, placement, files)


def file(
    address: str, name: str, *, renamed: bool, unpack: bool, files: RemoteFiles
) -> tuple[tuple[StagingRequest, ...], str]:
    """An item of `files`: one wish, or of a folder one for each file in it, and what is to be said of it.

    Args:
        name: what it is called in the working directory.
        renamed: the job file says so; then a folder's files lie in a folder of that name, else beside the others.

    Raises:
        Refused: it is to be unpacked, and is no archive.
        ValueError: it is not there, or may not be read.
        TonyError: the file system does not answer.
    """
    found = files.look(address)
    if isinstance(found, RemoteFile):
        return (_unpacked(found, name, Placement.FOLDER, files) if unpack else _as_it_is(found, name),), ""
    if unpack:
        raise StagingRejectedError("it is a folder, each of whose files is laid down. Leave #archive off.")
    prefix = f"{name}/" if renamed else ""
    return tuple(_as_it_is(each, prefix + each.name) for each in found.files), _left_out(found)


def in_place(wish: StagingRequest, found: RemoteFile) -> StagedItem:
    """What nodes are told of it, instead of a staged object."""
    return StagedItem(
        digest=found.key,
        size=found.size,
        name=wish.name,
        placement=wish.placement,
        suffix=wish.format.value if wish.format else "",
        mode=wish.mode,
        in_place=InPlace(address=found.address, timestamp=found.timestamp, public=found.public),
    )


def _as_it_is(found: RemoteFile, name: str) -> StagingRequest:
    return StagingRequest(path=Path(found.address), name=name, placement=Placement.FILE, mode=_MODE, remote=found)


def _unpacked(found: RemoteFile, name: str, placement: Placement, files: RemoteFiles) -> StagingRequest:
    with tempfile.NamedTemporaryFile(prefix="tony-") as head, files.open(found, _HEAD) as stream:
        while data := stream.read(_HEAD):
            head.write(data)
        head.flush()
        kind = detect(Path(head.name))
        other = None if kind else unsupported(Path(head.name))
    if kind is None:
        what = f"a {other} archive, which cannot be unpacked" if other else "no archive"
        raise StagingRejectedError(f"it is {what}. Archives are {KNOWN}, told by content.")
    return StagingRequest(path=Path(found.address), name=name, placement=placement, format=kind, remote=found)


def _left_out(found: RemoteFolder) -> str:
    if not found.folders:
        return "" if found.files else "there is no file in it"
    more = len(found.folders) - _NAMED
    names = ", ".join(found.folders[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"folders in it are left out, only its files are taken: {names}"
