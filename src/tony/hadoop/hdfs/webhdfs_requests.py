"""Parts of WebHDFS requests: addresses, paths and parameters as text, and the identity of the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tony.hadoop.hdfs.http import HttpOrigin, HttpResponse, split_url
from tony.hadoop.ipc.errors import IpcProtocolError

_MAX_LOCATION_CHARACTERS = 16 << 10


def parse_base_url(url: str) -> tuple[HttpOrigin, str]:
    """Parse a NameNode's base URL into its origin and the path before `/webhdfs`."""
    try:
        origin, target = split_url(url)
    except ValueError as error:
        raise ValueError(f"{url!r:.200} {error}; write http://host:9870") from None
    prefix = target.rstrip("/").removesuffix("/webhdfs/v1")
    if "?" in prefix or "#" in url:
        raise ValueError(f"{url!r:.200} has a query; write http://host:9870")
    return origin, prefix


def read_redirect(answer: HttpResponse, before: HttpOrigin, where: str) -> tuple[HttpOrigin, str]:
    """Return where a response redirects to: http or https, and never from https to http, for a token may be in it."""
    location = answer.find_header("Location") or ""
    answer.read_body()
    try:
        if len(location) > _MAX_LOCATION_CHARACTERS:
            raise ValueError("is too long")
        origin, target = split_url(location)
    except ValueError as error:
        raise IpcProtocolError(f"{where}: the server redirects to an address that {error}") from None
    if before.scheme == "https" and origin.scheme != "https":
        raise IpcProtocolError(f"{where}: refusing a redirect from https to {origin}: it would expose the token")
    return origin, target


def exclude_hosts(hosts: Sequence[str]) -> dict[str, str]:
    """Return the parameter that excludes DataNodes."""
    return {"excludedatanodes": ",".join(hosts)} if hosts else {}


def check_path(path: str) -> str:
    """Return a path as HDFS takes it.

    Raises:
        ValueError: it is relative, or has parts that are none.
    """
    parts = path.split("/")
    if not path.startswith("/") or any(part in (".", "..") for part in parts) or "\0" in path:
        raise ValueError(f"{path!r:.200} is not an absolute path in HDFS")
    return path if path == "/" else path.rstrip("/") or "/"


def format_bool(value: bool) -> str:
    """Return a truth value as a parameter."""
    return "true" if value else "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLogin:
    """The identity for requests.

    Attributes:
        user: the name, which a cluster without security believes; not sent with a token.
        token: a delegation token as URL-safe text, which identifies the user. Secret.
        act_for: another user to act for, if the cluster allows `user` to.
    """

    user: str = ""
    token: str = field(default="", repr=False)
    act_for: str = ""

    def build_query(self) -> dict[str, str]:
        """Return the parameters of every request."""
        who = {"delegation": self.token} if self.token else {"user.name": self.user} if self.user else {}
        return {**who, "doas": self.act_for} if self.act_for else who


#: Returns the login: called with None when it is first needed, and with the old login when its token was refused;
#: returns the same one if there is no other. May block.
LoginSource = Callable[[WebLogin | None], WebLogin]
