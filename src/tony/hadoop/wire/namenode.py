"""ClientProtocol of the NameNode, limited to names and tokens: no blocks, no data.

Times are milliseconds since 1970, permissions the usual twelve bits. The NameNode recognizes a repeated call that is
not idempotent by its call id and higher retry count.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tony.hadoop.wire.method import Method
from tony.hadoop.wire.proto import (
    BOOL,
    BYTES,
    ENUM,
    INT32,
    STRING,
    UINT32,
    UINT64,
    ProtoMessage,
    optional,
    repeated,
    required,
)
from tony.hadoop.wire.rpc import (
    CancelDelegationTokenRequest,
    CancelDelegationTokenResponse,
    GetDelegationTokenRequest,
    GetDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

PROTOCOL: Final = "org.apache.hadoop.hdfs.protocol.ClientProtocol"


class FileType(IntEnum):
    """The type of a path."""

    FOLDER = 1
    FILE = 2
    SYMLINK = 3


class SafeModeAction(IntEnum):
    """An action on the safe mode."""

    LEAVE = 1
    ENTER = 2
    GET = 3
    FORCE_EXIT = 4


class Permission(ProtoMessage):
    bits: int = required(1, UINT32)


class FileStatus(ProtoMessage):
    """The status of a path. In listings `path` is the last component only; for a single path it is empty."""

    type: FileType = required(1, ENUM(FileType))
    path: bytes = required(2, BYTES)
    length: int = required(3, UINT64)
    permission: Permission = required(4, Permission)
    owner: str = required(5, STRING)
    group: str = required(6, STRING)
    modification_time: int = required(7, UINT64)
    access_time: int = required(8, UINT64)
    symlink: bytes | None = optional(9, BYTES)
    replication: int = optional(10, UINT32, 0)
    block_size: int = optional(11, UINT64, 0)
    file_id: int = optional(13, UINT64, 0)
    children: int = optional(14, INT32, -1)


class GetFileInfoRequest(ProtoMessage):
    path: str = required(1, STRING)


class GetFileInfoResponse(ProtoMessage):
    """The status; absent if the path does not exist."""

    status: FileStatus | None = optional(1, FileStatus)


class MkdirsRequest(ProtoMessage):
    """The folder. `masked` has the umask applied, `unmasked` has not (for default ACLs)."""

    path: str = required(1, STRING)
    masked: Permission = required(2, Permission)
    create_parent: bool = required(3, BOOL)
    unmasked: Permission | None = optional(4, Permission)


class MkdirsResponse(ProtoMessage):
    """Whether it is there."""

    result: bool = required(1, BOOL)


class SetPermissionRequest(ProtoMessage):
    """The path, and its new permission bits."""

    path: str = required(1, STRING)
    permission: Permission = required(2, Permission)


class SetPermissionResponse(ProtoMessage):
    """An empty message."""


class SetOwnerRequest(ProtoMessage):
    """The path, its new owner and group."""

    path: str = required(1, STRING)
    owner: str | None = optional(2, STRING)
    group: str | None = optional(3, STRING)


class SetOwnerResponse(ProtoMessage):
    """An empty message."""


class SetTimesRequest(ProtoMessage):
    """The path, and its new times; 2^64 - 1 leaves a time unchanged."""

    path: str = required(1, STRING)
    modification_time: int = required(2, UINT64)
    access_time: int = required(3, UINT64)


class SetTimesResponse(ProtoMessage):
    """An empty message."""


class DeleteRequest(ProtoMessage):
    """The path, and whether to delete recursively."""

    path: str = required(1, STRING)
    recursive: bool = required(2, BOOL)


class DeleteResponse(ProtoMessage):
    """False if the path did not exist."""

    result: bool = required(1, BOOL)


class RecoverLeaseRequest(ProtoMessage):
    """The file whose lease to recover."""

    path: str = required(1, STRING)
    client_name: str = required(2, STRING)


class RecoverLeaseResponse(ProtoMessage):
    """Whether the file is closed."""

    result: bool = required(1, BOOL)


class RenameRequest(ProtoMessage):
    """Source and target (`rename2`: raises on failure, and may overwrite)."""

    source: str = required(1, STRING)
    target: str = required(2, STRING)
    overwrite: bool = required(3, BOOL)
    to_trash: bool | None = optional(4, BOOL)


class RenameResponse(ProtoMessage):
    """An empty message."""


class GetListingRequest(ProtoMessage):
    """The folder, and the entry after which to continue."""

    path: str = required(1, STRING)
    start_after: bytes = required(2, BYTES)
    need_location: bool = required(3, BOOL)


class Listing(ProtoMessage):
    """A part of a folder's entries, in order, and the number of remaining ones."""

    entries: tuple[FileStatus, ...] = repeated(1, FileStatus)
    remaining: int = required(2, UINT32)


class GetListingResponse(ProtoMessage):
    """The listing; absent if the folder does not exist."""

    listing: Listing | None = optional(1, Listing)


class GetFsStatsRequest(ProtoMessage):
    """An empty message."""


class GetFsStatsResponse(ProtoMessage):
    """Statistics of the file system, in bytes and blocks."""

    capacity: int = required(1, UINT64)
    used: int = required(2, UINT64)
    remaining: int = required(3, UINT64)
    under_replicated: int = required(4, UINT64)
    corrupt_blocks: int = required(5, UINT64)
    missing_blocks: int = required(6, UINT64)


class SetSafeModeRequest(ProtoMessage):
    action: SafeModeAction = required(1, ENUM(SafeModeAction))
    checked: bool = optional(2, BOOL, False)


class SetSafeModeResponse(ProtoMessage):
    """Whether safe mode is on."""

    result: bool = required(1, BOOL)


class GetServerDefaultsRequest(ProtoMessage):
    """An empty message."""


class ServerDefaults(ProtoMessage):
    """The server's defaults for writing files."""

    block_size: int = required(1, UINT64)
    bytes_per_checksum: int = required(2, UINT32)
    write_packet_size: int = required(3, UINT32)
    replication: int = required(4, UINT32)
    file_buffer_size: int = required(5, UINT32)
    encrypt_data_transfer: bool = optional(6, BOOL, False)


class GetServerDefaultsResponse(ProtoMessage):
    defaults: ServerDefaults = required(1, ServerDefaults)


GET_DELEGATION_TOKEN: Final = Method(
    protocol=PROTOCOL,
    name="getDelegationToken",
    request=GetDelegationTokenRequest,
    response=GetDelegationTokenResponse,
    idempotent=True,
)
RENEW_DELEGATION_TOKEN: Final = Method(
    protocol=PROTOCOL,
    name="renewDelegationToken",
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
    idempotent=True,
)
CANCEL_DELEGATION_TOKEN: Final = Method(
    protocol=PROTOCOL,
    name="cancelDelegationToken",
    request=CancelDelegationTokenRequest,
    response=CancelDelegationTokenResponse,
    idempotent=True,
)
GET_FILE_INFO: Final = Method(
    protocol=PROTOCOL,
    name="getFileInfo",
    request=GetFileInfoRequest,
    response=GetFileInfoResponse,
    idempotent=True,
)
MKDIRS: Final = Method(
    protocol=PROTOCOL,
    name="mkdirs",
    request=MkdirsRequest,
    response=MkdirsResponse,
    idempotent=True,
)
SET_PERMISSION: Final = Method(
    protocol=PROTOCOL,
    name="setPermission",
    request=SetPermissionRequest,
    response=SetPermissionResponse,
    idempotent=True,
)
SET_OWNER: Final = Method(
    protocol=PROTOCOL,
    name="setOwner",
    request=SetOwnerRequest,
    response=SetOwnerResponse,
    idempotent=True,
)
SET_TIMES: Final = Method(
    protocol=PROTOCOL,
    name="setTimes",
    request=SetTimesRequest,
    response=SetTimesResponse,
    idempotent=True,
)
DELETE: Final = Method(
    protocol=PROTOCOL,
    name="delete",
    request=DeleteRequest,
    response=DeleteResponse,
    idempotent=True,
)
RECOVER_LEASE: Final = Method(
    protocol=PROTOCOL,
    name="recoverLease",
    request=RecoverLeaseRequest,
    response=RecoverLeaseResponse,
    idempotent=True,
)
RENAME: Final = Method(
    protocol=PROTOCOL,
    name="rename2",
    request=RenameRequest,
    response=RenameResponse,
    idempotent=True,
)
GET_LISTING: Final = Method(
    protocol=PROTOCOL,
    name="getListing",
    request=GetListingRequest,
    response=GetListingResponse,
    idempotent=True,
)
GET_FS_STATS: Final = Method(
    protocol=PROTOCOL,
    name="getFsStats",
    request=GetFsStatsRequest,
    response=GetFsStatsResponse,
    idempotent=True,
)
SET_SAFE_MODE: Final = Method(
    protocol=PROTOCOL,
    name="setSafeMode",
    request=SetSafeModeRequest,
    response=SetSafeModeResponse,
    idempotent=True,
)
GET_SERVER_DEFAULTS: Final = Method(
    protocol=PROTOCOL,
    name="getServerDefaults",
    request=GetServerDefaultsRequest,
    response=GetServerDefaultsResponse,
    idempotent=True,
)
