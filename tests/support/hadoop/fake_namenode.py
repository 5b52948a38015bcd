"""A fake NameNode for names and tokens: directories and empty files in memory, a retry cache, safe mode.

    files = PlayedNameNode()
    async with FakeIpcServer() as server:
        files.serve(server)

Several servers may serve one file system, as a pair of NameNodes does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.support.hadoop.ipc_server import FakeIpcServer, FakeRefusal, Incoming
from tony.dataclass import dataclass, replace
from tony.hadoop.wire import namenode as wire
from tony.hadoop.wire.method import Method, Request, Response
from tony.hadoop.wire.proto import ProtoMessage
from tony.hadoop.wire.rpc import GetDelegationTokenRequest, GetDelegationTokenResponse, Token

Answer = TypeVar("Answer", bound=ProtoMessage)
_MISSING = "java.io.FileNotFoundException"
_FS = "org.apache.hadoop.fs."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedName:
    """A file or directory."""

    is_folder: bool
    permission: int
    owner: str
    group: str = "supergroup"
    modified_ms: int = 0
    accessed_ms: int = 0
    length: int = 0


class PlayedNameNode:
    """The state that the NameNodes of a file system share.

    Args:
        page: maximum number of entries in one response to a listing.
        tokens: whether delegation tokens are issued.

    Attributes:
        names: path -> file or directory.
        safe_mode: whether changes are refused.
        done: number of changes; retries of a call make none.
    """

    def __init__(self, *, page: int = 1000, tokens: bool = False) -> None:
        self.names = {"/": PlayedName(is_folder=True, permission=0o755, owner="hdfs")}
        self.page, self.tokens = page, tokens
        self.safe_mode = False
        self.done = 0
        self._answers: dict[tuple[bytes, int], ProtoMessage] = {}

    def serve(self, server: FakeIpcServer) -> None:
        """Register the handlers with a server."""
        server.on(wire.GET_FILE_INFO, self._info)
        server.on(wire.GET_LISTING, self._listing)
        server.on(wire.GET_FS_STATS, self._stats)
        server.on(wire.SET_SAFE_MODE, self._safe_mode)
        server.on(wire.GET_DELEGATION_TOKEN, self._token)
        self._change(server, wire.MKDIRS, self._mkdirs)
        self._change(server, wire.SET_PERMISSION, self._set_permission)
        self._change(server, wire.SET_OWNER, self._set_owner)
        self._change(server, wire.SET_TIMES, self._set_times)
        self._change(server, wire.DELETE, self._delete)
        self._change(server, wire.RENAME, self._rename)

    def _change(
        self, server: FakeIpcServer, method: Method[Request, Response], act: Callable[[Request, Incoming], Response]
    ) -> None:
        """Register a method that changes names: executed once per call id, and refused in safe mode."""

        def handle(request: Request, call: Incoming) -> Response:
            key = call.client_id, call.call_id
            known = self._answers.get(key)
            if isinstance(known, method.response):
                return known
            if self.safe_mode:
                said = f"Cannot {method.name}. Name node is in safe mode."
                raise FakeRefusal("org.apache.hadoop.hdfs.server.namenode.SafeModeException", said)
            answer = act(request, call)
            self.done += 1
            self._answers[key] = answer
            return answer

        server.on(method, handle)

    # -- looking

    def _info(self, request: wire.GetFileInfoRequest, _: Incoming) -> wire.GetFileInfoResponse:
        found = self.names.get(request.path)
        return wire.GetFileInfoResponse(status=_told("", found) if found else None)

    def _listing(self, request: wire.GetListingRequest, _: Incoming) -> wire.GetListingResponse:
        found = self.names.get(request.path)
        if found is None:
            return wire.GetListingResponse()
        if not found.is_folder:
            return wire.GetListingResponse(listing=wire.Listing(entries=(_told("", found),), remaining=0))
        inside = request.path.rstrip("/") + "/"
        names = sorted(path[len(inside) :].encode() for path in self.names if path.startswith(inside) and path != "/")
        left = [name for name in names if b"/" not in name and name > request.start_after]
        entries = tuple(_told(name.decode(), self.names[inside + name.decode()]) for name in left[: self.page])
        return wire.GetListingResponse(listing=wire.Listing(entries=entries, remaining=len(left) - len(entries)))

    def _stats(self, *_: object) -> wire.GetFsStatsResponse:
        return wire.GetFsStatsResponse(
            capacity=1000, used=100, remaining=900, under_replicated=0, corrupt_blocks=0, missing_blocks=0
        )

    def _safe_mode(self, request: wire.SetSafeModeRequest, _: Incoming) -> wire.SetSafeModeResponse:
        if request.action is not wire.SafeModeAction.GET:
            self.safe_mode = request.action is wire.SafeModeAction.ENTER
        return wire.SetSafeModeResponse(result=self.safe_mode)

    # -- changing

    def _existing(self, path: str) -> PlayedName:
        found = self.names.get(path)
        if found is None:
            raise FakeRefusal(_MISSING, f"{path} does not exist")
        return found

    def _mkdirs(self, request: wire.MkdirsRequest, call: Incoming) -> wire.MkdirsResponse:
        missing = []
        path = request.path
        while path not in self.names:
            missing.append(path)
            path = path.rpartition("/")[0] or "/"
        if not self.names[path].is_folder:
            raise FakeRefusal(f"{_FS}FileAlreadyExistsException", f"{path} is not a directory.")
        if len(missing) > 1 and not request.create_parent:
            raise FakeRefusal(_MISSING, f"Parent directory doesn't exist: {missing[1]}")
        for each in missing:
            self.names[each] = PlayedName(
                is_folder=True,
                permission=request.masked.bits if each == request.path else request.masked.bits & 0o777,
                owner=call.caller.user or "unknown",
                modified_ms=int(time.time() * 1000),
            )
        return wire.MkdirsResponse(result=True)

    def _set_permission(self, request: wire.SetPermissionRequest, _: Incoming) -> wire.SetPermissionResponse:
        self.names[request.path] = replace(self._existing(request.path), permission=request.permission.bits)
        return wire.SetPermissionResponse()

    def _set_owner(self, request: wire.SetOwnerRequest, _: Incoming) -> wire.SetOwnerResponse:
        old = self._existing(request.path)
        self.names[request.path] = replace(old, owner=request.owner or old.owner, group=request.group or old.group)
        return wire.SetOwnerResponse()

    def _set_times(self, request: wire.SetTimesRequest, _: Incoming) -> wire.SetTimesResponse:
        old = self._existing(request.path)
        unchanged = 2**64 - 1
        self.names[request.path] = replace(
            old,
            modified_ms=old.modified_ms if request.modification_time == unchanged else request.modification_time,
            accessed_ms=old.accessed_ms if request.access_time == unchanged else request.access_time,
        )
        return wire.SetTimesResponse()

    def _delete(self, request: wire.DeleteRequest, _: Incoming) -> wire.DeleteResponse:
        below = self._below(request.path)
        if below and not request.recursive:
            raise FakeRefusal(f"{_FS}PathIsNotEmptyDirectoryException", f"`{request.path} is non empty'")
        for path in below:
            del self.names[path]
        return wire.DeleteResponse(result=self.names.pop(request.path, None) is not None)

    def _rename(self, request: wire.RenameRequest, _: Incoming) -> wire.RenameResponse:
        if request.source not in self.names:
            raise FakeRefusal(_MISSING, f"rename source {request.source} is not found.")
        if request.target in self.names:
            if not request.overwrite:
                said = f"rename destination {request.target} already exists"
                raise FakeRefusal(f"{_FS}FileAlreadyExistsException", said)
            if self._below(request.target):
                raise FakeRefusal("java.io.IOException", f"rename destination directory is not empty: {request.target}")
        for path in (request.source, *self._below(request.source)):
            self.names[request.target + path[len(request.source) :]] = self.names.pop(path)
        return wire.RenameResponse()

    def _below(self, path: str) -> list[str]:
        return [each for each in self.names if each.startswith(path.rstrip("/") + "/") and each != path]

    # -- tokens

    def _token(self, request: GetDelegationTokenRequest, call: Incoming) -> GetDelegationTokenResponse:
        if not self.tokens:
            return GetDelegationTokenResponse()
        identifier = f"{call.caller.user} {request.renewer}".encode()
        token = Token(identifier=identifier, password=b"secret", kind="HDFS_DELEGATION_TOKEN", service="")
        return GetDelegationTokenResponse(token=token)


def _told(name: str, found: PlayedName) -> wire.FileStatus:
    return wire.FileStatus(
        type=wire.FileType.FOLDER if found.is_folder else wire.FileType.FILE,
        path=name.encode(),
        length=found.length,
        permission=wire.Permission(bits=found.permission),
        owner=found.owner,
        group=found.group,
        modification_time=found.modified_ms,
        access_time=found.accessed_ms,
        replication=0 if found.is_folder else 1,
        block_size=0 if found.is_folder else 1 << 27,
    )
