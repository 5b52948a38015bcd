"""ClientProtocol of the NameNode, as far as it is about names and tokens: no blocks, no data.

Times are milliseconds since 1970, permissions the usual twelve bits. Calls that would change the file system a second
time when repeated are recognized by the NameNode when they carry the same call id with a higher retry count.
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
    """What a name is."""

    FOLDER = 1
    FILE = 2
    SYMLINK = 3


class SafeModeAction(IntEnum):
    """What to do about safe mode."""

    LEAVE = 1
    ENTER = 2
    GET = 3
    FORCE_EXIT = 4


class Permission(ProtoMessage):
    """The twelve bits."""

    bits: int = required(1, UINT32)


class FileStatus(ProtoMessage):
    """What the NameNode knows of a name. In listings the path is the last part only; for a single one it is empty."""

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
    """Which name."""

    path: str = required(1, STRING)


class GetFileInfoResponse(ProtoMessage):
    """Absent if there is no such name."""

    status: FileStatus | None = optional(1, FileStatus)


class MkdirsRequest(ProtoMessage):
    """Which folder. `masked` is what remains after the umask, `unmasked` what was before it (for default ACLs)."""

    path: str = required(1, STRING)
    masked: Permission = required(2, Permission)
    create_parent: bool = required(3, BOOL)
    unmasked: Permission | None = optional(4, Permission)


class MkdirsResponse(ProtoMessage):
    """Whether it is there."""

    result: bool = required(1, BOOL)


class SetPermissionRequest(ProtoMessage):
    """Which name, and its new bits."""

    path: str = required(1, STRING)
    permission: Permission = required(2, Permission)


class SetPermissionResponse(ProtoMessage):
    """Nothing."""


class SetOwnerRequest(ProtoMessage):
    """Which name, its new owner and group."""

    path: str = required(1, STRING)
    owner: str | None = optional(2, STRING)
    group: str | None = optional(3, STRING)


class SetOwnerResponse(ProtoMessage):
    """Nothing."""


class SetTimesRequest(ProtoMessage):
    """Which name, and its new times; 2^64 - 1 leaves a time as it is."""

    path: str = required(1, STRING)
    modification_time: int = required(2, UINT64)
    access_time: int = required(3, UINT64)


class SetTimesResponse(ProtoMessage):
    """Nothing."""


class DeleteRequest(ProtoMessage):
    """Which name, and whether with all that is in it."""

    path: str = required(1, STRING)
    recursive: bool = required(2, BOOL)


class DeleteResponse(ProtoMessage):
    """False if there was no such name."""

    result: bool = required(1, BOOL)


class RecoverLeaseRequest(ProtoMessage):
    """Which file shall be taken from its writer."""

    path: str = required(1, STRING)
    client_name: str = required(2, STRING)


class RecoverLeaseResponse(ProtoMessage):
    """Whether the file is closed by now."""

    result: bool = required(1, BOOL)


class RenameRequest(ProtoMessage):
    """From where to where (`rename2`: fails loudly, and may overwrite)."""

    source: str = required(1, STRING)
    target: str = required(2, STRING)
    overwrite: bool = required(3, BOOL)
    to_trash: bool | None = optional(4, BOOL)


class RenameResponse(ProtoMessage):
    """Nothing."""


class GetListingRequest(ProtoMessage):
    """Which folder, and after which entry to go on."""

    path: str = required(1, STRING)
    start_after: bytes = required(2, BYTES)
    need_location: bool = required(3, BOOL)


class Listing(ProtoMessage):
    """Some of a folder's entries, in order, and how many are still to come."""

    entries: tuple[FileStatus, ...] = repeated(1, FileStatus)
    remaining: int = required(2, UINT32)


class GetListingResponse(ProtoMessage):
    """Absent if there is no such folder."""

    listing: Listing | None = optional(1, Listing)


class GetFsStatsRequest(ProtoMessage):
    """Nothing."""


class GetFsStatsResponse(ProtoMessage):
    """The file system in bytes and blocks."""

    capacity: int = required(1, UINT64)
    used: int = required(2, UINT64)
    remaining: int = required(3, UINT64)
    under_replicated: int = required(4, UINT64)
    corrupt_blocks: int = required(5, UINT64)
    missing_blocks: int = required(6, UINT64)


class SetSafeModeRequest(ProtoMessage):
    """GET only asks."""

    action: SafeModeAction = required(1, ENUM(SafeModeAction))
    checked: bool = optional(2, BOOL, False)


class SetSafeModeResponse(ProtoMessage):
    """Whether safe mode is on."""

    result: bool = required(1, BOOL)


class GetServerDefaultsRequest(ProtoMessage):
    """Nothing."""


class ServerDefaults(ProtoMessage):
    """How files are written if nothing else is said."""

    block_size: int = required(1, UINT64)
    bytes_per_checksum: int = required(2, UINT32)
    write_packet_size: int = required(3, UINT32)
    replication: int = required(4, UINT32)
    file_buffer_size: int = required(5, UINT32)
    encrypt_data_transfer: bool = optional(6, BOOL, False)


class GetServerDefaultsResponse(ProtoMessage):
    """The defaults."""

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
