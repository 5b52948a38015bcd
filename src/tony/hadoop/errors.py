"""Errors of calls to a Hadoop daemon, by RPC or HTTP.

    HadoopError
    ├── ConnectError            no connection: refused, unknown host, time-out, unreachable (`failure` says which)
    ├── ConnectionLostError     a connection broke; `maybe_executed` says whether the call may have been carried out
    ├── CallTimeoutError        no answer in time; the call may have been carried out
    ├── LoginError              no common authentication method, or one side rejected the other
    │   └── LoginDroppedError       (a ConnectionLostError, too) the daemon closed the connection in the middle of it
    ├── IpcProtocolError        the other side is not a Hadoop daemon, or violated the protocol
    └── RemoteError             the daemon answered with an exception; the class follows its Java class name
        ├── StandbyError            try the other daemon of the pair
        ├── RetriableError          try again later
        │   └── SafeModeError           the NameNode takes no changes at present
        ├── AccessControlError      this user has no permission
        ├── AuthorizationError      this user may not use this protocol, or not as that user
        ├── InvalidTokenError       the token is unknown, expired or cancelled
        ├── SaslError               the daemon rejected the authentication
        ├── NoSuchMethodError, NoSuchProtocolError    the daemon is older, or a different one
        ├── YarnError               and its subclasses: the ResourceManager or a NodeManager refused
        └── FileSystemError         and its subclasses: HDFS refused, over RPC or WebHDFS

Every message names host:port and the protocol, and says what to do where that is known.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from tony.control_characters import escape_line, escape_text
from tony.errors import InfraError


class HadoopError(InfraError):
    """The base class of errors of calls to a Hadoop daemon."""


class ConnectFailure(Enum):
    """The reason why a connection could not be made."""

    #: The host is reachable, but no process listens on the port.
    REFUSED = "refused"
    #: No such name in DNS or /etc/hosts.
    UNKNOWN_HOST = "unknown host"
    #: No answer in time, to TCP or to the hand-shake.
    TIMED_OUT = "timed out"
    #: No route, network down, reset.
    UNREACHABLE = "unreachable"


class ConnectError(HadoopError):
    """No connection.

    Attributes:
        failure: which way it failed.
    """

    def __init__(self, message: str, failure: ConnectFailure) -> None:
        self.failure = failure
        super().__init__(message)


class ConnectionLostError(HadoopError):
    """The connection was closed before the response arrived.

    Attributes:
        maybe_executed: False only if the call never left this process.
    """

    def __init__(self, message: str, *, maybe_executed: bool = True) -> None:
        self.maybe_executed = maybe_executed
        super().__init__(message)


class CallTimeoutError(HadoopError):
    """No response in time. The call may have been carried out, or may still be."""


class LoginError(HadoopError):
    """Authentication failed: no common method, or one side rejected the other."""


class LoginDroppedError(ConnectionLostError, LoginError):
    """The daemon closed the connection during the login: it was killed at that moment, or it cannot read the token.

    The two look the same: once it is an accident, several times in a row it is the token.
    """


class IpcProtocolError(HadoopError):
    """The server is not a Hadoop daemon, or violated the protocol."""


class RemoteError(HadoopError):
    """An exception that the daemon returned.

    Attributes:
        class_name: of the Java exception, in full; empty if the daemon named none.
        remote_message: its message, without the stack trace.
        fatal: whether the daemon closed the connection over it.
    """

    #: Said at the end of the message: what to do.
    advice: ClassVar[str] = ""

    def __init__(self, class_name: str, message: str, *, where: str = "", fatal: bool = False) -> None:
        self.class_name = escape_line(class_name, 200)
        self.remote_message = escape_text(message.partition("\n\tat ")[0].strip())
        self.fatal = fatal
        simple = self.class_name.rpartition(".")[2] or "unnamed error"
        text = f"{where}: {simple}" if where else simple
        text = f"{text}: {self.remote_message}" if self.remote_message else text
        super().__init__(f"{text}\n{self.advice}" if self.advice else text)


class StandbyError(RemoteError):
    """The daemon is in standby; another one is or will become active."""


class RetriableError(RemoteError):
    """A temporary error; the same call may succeed shortly."""


class SafeModeError(RetriableError):
    """The NameNode is in safe mode and accepts no changes."""

    advice = "It leaves safe mode by itself when enough blocks are reported; `hdfs dfsadmin -safemode get` says more."


class AccessControlError(RemoteError):
    """This user may not do that."""


class AuthorizationError(RemoteError):
    """The user may not use the protocol, or may not impersonate the other user."""


class InvalidTokenError(RemoteError):
    """The token is unknown to the daemon, expired or cancelled."""


class SaslError(RemoteError):
    """The daemon rejected the authentication."""


class NoSuchMethodError(RemoteError):
    """The daemon does not know the method."""

    advice = "The daemon is older than this call, or the address belongs to another kind of daemon."


class NoSuchProtocolError(RemoteError):
    """The daemon does not serve the protocol."""

    advice = "The address belongs to another kind of daemon, or to another port of it; look at it in the settings."


class YarnError(RemoteError):
    """An exception of YARN's that has no class of its own here."""


class ApplicationNotFoundError(YarnError):
    """The ResourceManager knows no such application."""


class ApplicationAttemptNotFoundError(YarnError):
    """No such attempt of an application; an application master that gets it for its own attempt must exit."""


class ApplicationMasterNotRegisteredError(YarnError):
    """The ResourceManager lost the registration: register again and send everything again."""


class InvalidApplicationMasterRequestError(YarnError):
    """The AM registered twice, or its heartbeats are out of sequence."""


class InvalidResourceRequestError(YarnError):
    """A request that exceeds the maximum container, or names an unknown label or type."""


class NodeManagerNotReadyError(YarnError):
    """The NodeManager has not yet registered with the ResourceManager."""


class FileSystemError(RemoteError):
    """HDFS refused the operation."""


class FileMissingError(FileSystemError):
    """No such file or folder."""


class FileExistsAlreadyError(FileSystemError):
    """A file or folder of this name exists already."""


class QuotaExceededError(FileSystemError):
    """A quota of names or of space is used up."""


class NoSpaceError(FileSystemError):
    """No DataNode accepts the block: all are full, too few, or excluded."""

    advice = (
        "All DataNodes are full, or too few of them run: see the NameNode's page, `hdfs dfsadmin -report`,"
        " and dfs.datanode.du.reserved."
    )


class BeingWrittenError(FileSystemError):
    """Another writer has the file open, or died and its last block is being recovered; retry later."""

    advice = (
        "The lease of a dead writer ends with its connection; if its machine vanished, recover the lease:"
        " hdfs debug recoverLease -path <file>"
    )


_YARN = "org.apache.hadoop.yarn.exceptions."
_IPC = "org.apache.hadoop.ipc."
_SECURITY = "org.apache.hadoop.security."
_HDFS = "org.apache.hadoop.hdfs."

#: Java class name -> class. Others become a RemoteError, or by their package a YarnError.
_CLASSES: dict[str, type[RemoteError]] = {
    f"{_IPC}StandbyException": StandbyError,
    f"{_IPC}ObserverRetryOnActiveException": StandbyError,
    f"{_IPC}RetriableException": RetriableError,
    f"{_IPC}RpcNoSuchMethodException": NoSuchMethodError,
    f"{_IPC}RpcNoSuchProtocolException": NoSuchProtocolError,
    f"{_SECURITY}AccessControlException": AccessControlError,
    "org.apache.hadoop.fs.permission.AccessControlException": AccessControlError,
    "java.security.AccessControlException": AccessControlError,
    f"{_SECURITY}authorize.AuthorizationException": AuthorizationError,
    f"{_SECURITY}token.SecretManager$InvalidToken": InvalidTokenError,
    "javax.security.sasl.SaslException": SaslError,
    f"{_HDFS}server.namenode.SafeModeException": SafeModeError,
    f"{_HDFS}protocol.NSQuotaExceededException": QuotaExceededError,
    f"{_HDFS}protocol.DSQuotaExceededException": QuotaExceededError,
    f"{_HDFS}protocol.QuotaExceededException": QuotaExceededError,
    f"{_HDFS}protocol.AlreadyBeingCreatedException": BeingWrittenError,
    f"{_HDFS}protocol.RecoveryInProgressException": BeingWrittenError,
    f"{_HDFS}server.namenode.LeaseExpiredException": BeingWrittenError,
    "java.io.FileNotFoundException": FileMissingError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsAlreadyError,
    f"{_YARN}ApplicationNotFoundException": ApplicationNotFoundError,
    f"{_YARN}ApplicationAttemptNotFoundException": ApplicationAttemptNotFoundError,
    f"{_YARN}ApplicationMasterNotRegisteredException": ApplicationMasterNotRegisteredError,
    f"{_YARN}InvalidApplicationMasterRequestException": InvalidApplicationMasterRequestError,
    f"{_YARN}InvalidResourceRequestException": InvalidResourceRequestError,
    f"{_YARN}InvalidLabelResourceRequestException": InvalidResourceRequestError,
    f"{_YARN}NMNotYetReadyException": NodeManagerNotReadyError,
}


def build_remote_error(class_name: str, message: str, *, where: str = "", fatal: bool = False) -> RemoteError:
    """Return the error for a Java exception.

    Args:
        class_name: the Java class, in full.
        message: as on the wire, stack trace and all.
        where: server and method: `127.0.0.1:8032 ApplicationClientProtocol.submitApplication`.
        fatal: whether the daemon closes the connection.
    """
    kind = _CLASSES.get(class_name)
    if kind is None:
        kind = YarnError if class_name.startswith(_YARN) else RemoteError
    if kind is YarnError:  # the ResourceManager wraps what others say: `YarnException: <class>: <message>`
        kind = _CLASSES.get(message[:200].partition(":")[0].strip(), kind)
    if kind is RetriableError and "SafeModeException" in message[:500]:
        kind = SafeModeError  # the NameNode of an HA pair wraps it, so that clients try the other one
    if kind is SaslError and "token" in message[:500] and "can't be found in cache" in message[:2000]:
        kind = InvalidTokenError
    return kind(class_name, message, where=where, fatal=fatal)
