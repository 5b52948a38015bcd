"""Staging requests for files in a cluster's file system. Loaded only for jobs that name an address."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tony.model.staged_files import InPlace, Placement, StagedItem
from tony.storage.archives.archive_detection import KNOWN, detect, find_unsupported
from tony.storage.staging.remote_files_interface import RemoteFile, RemoteFiles, RemoteFolder
from tony.storage.staging.staging_requests import StagingRejectedError, StagingRequest
from tony.units import format_first

#: Bytes of a file that are read to detect its archive format.
_HEAD_BYTES = 64 * 1024
#: Files in HDFS have no execute bit, but any of them may be a program. YARN's own resources have this mode, too.
_MODE = 0o755
#: Number of left-out folders that a message names.
_MAX_NAMES = 5


def request_archive(address: str, placement: Placement, files: RemoteFiles) -> StagingRequest:
    """Return the request for a source, or a Python.

    Raises:
        StagingRejectedError: it is no archive.
        ValueError: it does not exist, or may not be read.
        TonyError: the file system does not answer.
    """
    found = files.stat(address)
    if isinstance(found, RemoteFolder):
        raise StagingRejectedError(
            "it is a folder. From HDFS only an archive can be used here: pack it, or list it under `files`."
        )
    return _archive_request(found, found.name, placement, files)


def request_file(
    address: str, name: str, *, renamed: bool, unpack: bool, files: RemoteFiles
) -> tuple[tuple[StagingRequest, ...], str]:
    """Return the requests for an item of `files`, one for each file of a folder, and a note for the user.

    Args:
        name: its name in the working directory.
        renamed: the name is from the job file; then a folder's files go into a folder of that name, else next to the
            others.

    Raises:
        StagingRejectedError: it is to be unpacked, and is no archive.
        ValueError: it does not exist, or may not be read.
        TonyError: the file system does not answer.
    """
    found = files.stat(address)
    if isinstance(found, RemoteFile):
        return (_archive_request(found, name, Placement.FOLDER, files) if unpack else _file_request(found, name),), ""
    if unpack:
        raise StagingRejectedError("it is a folder, whose files are copied. Remove #archive.")
    prefix = f"{name}/" if renamed else ""
    return tuple(_file_request(each, prefix + each.name) for each in found.files), _describe_left_out(found)


def stage_in_place(request: StagingRequest, found: RemoteFile) -> StagedItem:
    """Return the item that nodes fetch themselves, instead of a staged object."""
    return StagedItem(
        digest=found.key,
        size=found.size,
        name=request.name,
        placement=request.placement,
        suffix=request.format.value if request.format else "",
        mode=request.mode,
        in_place=InPlace(address=found.address, timestamp=found.timestamp, public=found.public),
    )


def _file_request(found: RemoteFile, name: str) -> StagingRequest:
    return StagingRequest(path=Path(found.address), name=name, placement=Placement.FILE, mode=_MODE, remote=found)


def _archive_request(found: RemoteFile, name: str, placement: Placement, files: RemoteFiles) -> StagingRequest:
    with tempfile.NamedTemporaryFile(prefix="tony-") as head, files.open(found, _HEAD_BYTES) as stream:
        while data := stream.read(_HEAD_BYTES):
            head.write(data)
        head.flush()
        kind = detect(Path(head.name))
        other = None if kind else find_unsupported(Path(head.name))
    if kind is None:
        what = f"a {other} archive, which is not supported" if other else "not an archive"
        raise StagingRejectedError(f"it is {what}. Supported are {KNOWN}, detected by content.")
    return StagingRequest(path=Path(found.address), name=name, placement=placement, format=kind, remote=found)


def _describe_left_out(found: RemoteFolder) -> str:
    if not found.folders:
        return "" if found.files else "it contains no files"
    names = format_first(found.folders, _MAX_NAMES)
    return f"its subfolders are left out, only its files are copied: {names}"
