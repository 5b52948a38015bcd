"""Names in HDFS over RPC: what is there, folders, permissions, renames; and delegation tokens. No file contents.

One call here takes a millisecond or two, the same over HTTP some ten. Paths are absolute and belong to one file system,
without `hdfs://`. Calls may be repeated when an answer got lost: the NameNode recognizes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from tony.dataclass import dataclass
from tony.hadoop.failover import FailoverProxy
from tony.hadoop.hdfs.file_system import FileKind, FileStatus
from tony.hadoop.ipc.errors import FileMissingError
from tony.hadoop.tokens.credentials import from_message, to_message
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire import namenode as wire
from tony.hadoop.wire.rpc import CancelDelegationTokenRequest, GetDelegationTokenRequest, RenewDelegationTokenRequest

#: "Leave this time as it is": -1 in an unsigned field.
_UNCHANGED: Final = 2**64 - 1
_KINDS: Final = {
    wire.FileType.FOLDER: FileKind.DIRECTORY,
    wire.FileType.FILE: FileKind.FILE,
    wire.FileType.SYMLINK: FileKind.SYMLINK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A file system in bytes.

    Attributes:
        capacity: all of it.
        used: by HDFS.
        remaining: for HDFS; copies of blocks count each.
    """

    capacity: int
    used: int
    remaining: int


class NameNode:
    """ClientProtocol, through a proxy of the NameNodes of one file system.

    Args:
        proxy: proxy of the NameNodes.
        token_service: what delegation tokens of this file system have as their service, or who knows it.
    """

    def __init__(self, proxy: FailoverProxy, *, token_service: str | Callable[[], str] = "") -> None:
        self._proxy = proxy
        self._token_service = token_service

    async def close(self) -> None:
        """Close the connections."""
        await self._proxy.close()

    async def __aenter__(self) -> NameNode:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- looking

    async def status(self, path: str) -> FileStatus | None:
        """Return the status of a path, or None if it does not exist. Symbolic links are not followed."""
        answer = await self._proxy.call(wire.GET_FILE_INFO, wire.GetFileInfoRequest(path=_checked(path)))
        return _status(answer.status) if answer.status else None

    async def list(self, path: str) -> list[FileStatus]:
        """Return a folder's entries sorted by name; for a file its own entry, with an empty name.

        Raises:
            FileMissingError: there is nothing of this name.
        """
        return [entry async for entry in self.entries(path)]

    async def entries(self, path: str) -> AsyncIterator[FileStatus]:
        """The same, some thousand at a time; changes in between may show.

        Raises:
            FileMissingError: there is nothing of this name.
        """
        after = b""
        while True:
            request = wire.GetListingRequest(path=_checked(path), start_after=after, need_location=False)
            listing = (await self._proxy.call(wire.GET_LISTING, request)).listing
            if listing is None:
                if after:
                    return  # removed while we read it
                raise FileMissingError(
                    "java.io.FileNotFoundException", f"{path} does not exist", where=self._proxy.name
                )
            for entry in listing.entries:
                yield _status(entry)
            if not listing.remaining or not listing.entries:
                return
            after = listing.entries[-1].path

    async def space(self) -> Space:
        """Return the capacity and usage of the file system."""
        answer = await self._proxy.call(wire.GET_FS_STATS, wire.GetFsStatsRequest())
        return Space(capacity=answer.capacity, used=answer.used, remaining=answer.remaining)

    async def is_in_safe_mode(self) -> bool:
        """Return True if the NameNode is in safe mode and accepts no changes."""
        request = wire.SetSafeModeRequest(action=wire.SafeModeAction.GET)
        return (await self._proxy.call(wire.SET_SAFE_MODE, request)).result

    # -- changing

    async def make_folder(self, path: str, permission: int = 0o755, *, parents: bool = True) -> bool:
        """Create a folder with exactly these permissions; an existing one is unchanged.

        Args:
            parents: whether missing parents are made, too, with the same permissions (but the sticky bit).

        Raises:
            FileExistsAlreadyError: there is a file of this name.
        """
        bits = wire.Permission(bits=permission)
        request = wire.MkdirsRequest(path=_checked(path), masked=bits, create_parent=parents, unmasked=bits)
        return (await self._proxy.call(wire.MKDIRS, request)).result

    async def set_permission(self, path: str, permission: int) -> None:
        """Sets the bits, such as 0o644.

        Raises:
            FileMissingError: there is nothing of this name.
        """
        request = wire.SetPermissionRequest(path=_checked(path), permission=wire.Permission(bits=permission))
        await self._proxy.call(wire.SET_PERMISSION, request)

    async def set_owner(self, path: str, owner: str | None = None, group: str | None = None) -> None:
        """Sets owner and group; None leaves one as it is."""
        await self._proxy.call(wire.SET_OWNER, wire.SetOwnerRequest(path=_checked(path), owner=owner, group=group))

    async def set_times(self, path: str, *, modified_ms: int | None = None, accessed_ms: int | None = None) -> None:
        """Sets times, in milliseconds since 1970; None leaves one as it is."""
        request = wire.SetTimesRequest(
            path=_checked(path),
            modification_time=_UNCHANGED if modified_ms is None else modified_ms,
            access_time=_UNCHANGED if accessed_ms is None else accessed_ms,
        )
        await self._proxy.call(wire.SET_TIMES, request)

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a path; return False if it did not exist.

        Raises:
            RemoteError: a folder that is not empty (`PathIsNotEmptyDirectoryException`), without `recursive`.
        """
        request = wire.DeleteRequest(path=_checked(path), recursive=recursive)
        return (await self._proxy.call(wire.DELETE, request)).result

    async def recover_lease(self, path: str) -> bool:
        """Recover the lease of a file from its live or dead writer, and close it; return True once it is closed.

        That needs the DataNodes and so some seconds: call it again until it is True.

        Raises:
            FileMissingError: there is no such file.
        """
        request = wire.RecoverLeaseRequest(path=_checked(path), client_name="recovery")
        return (await self._proxy.call(wire.RECOVER_LEASE, request)).result

    async def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Rename atomically, never into a folder.

        Args:
            overwrite: whether a file, or an empty folder, of the new name is replaced.

        Raises:
            FileMissingError: there is no source, or no folder for the target.
            FileExistsAlreadyError: there is a target.
        """
        request = wire.RenameRequest(source=_checked(source), target=_checked(target), overwrite=overwrite)
        await self._proxy.call(wire.RENAME, request)

    # -- tokens

    async def delegation_token(self, renewer: str) -> HadoopToken | None:
        """Get a delegation token, with which programs without a Kerberos ticket can use the file system.

        Args:
            renewer: who may renew it: the ResourceManager's principal, for jobs.

        Returns:
            None if this cluster gives none out: it wants no proofs.
        """
        answer = await self._proxy.call(wire.GET_DELEGATION_TOKEN, GetDelegationTokenRequest(renewer=renewer))
        if answer.token is None or not answer.token.identifier:
            return None
        service = self._token_service
        return from_message(answer.token, service=(service if isinstance(service, str) else service()) or None)

    async def renew_token(self, token: HadoopToken) -> int:
        """Renew a token (as the renewer); return its new expiry time in milliseconds since 1970."""
        request = RenewDelegationTokenRequest(token=to_message(token))
        return (await self._proxy.call(wire.RENEW_DELEGATION_TOKEN, request)).expiry_time

    async def cancel_token(self, token: HadoopToken) -> None:
        """Cancel a token."""
        await self._proxy.call(wire.CANCEL_DELEGATION_TOKEN, CancelDelegationTokenRequest(token=to_message(token)))


def _checked(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"{path!r:.200} is not an absolute path of the file system")
    return path


def _status(found: wire.FileStatus) -> FileStatus:
    return FileStatus(
        name=found.path.decode("utf-8", "replace"),
        kind=_KINDS[found.type],
        length=found.length,
        modified_ms=found.modification_time,
        accessed_ms=found.access_time,
        owner=found.owner,
        group=found.group,
        permission=found.permission.bits & 0o7777,
        replication=found.replication,
        block_size=found.block_size,
    )
