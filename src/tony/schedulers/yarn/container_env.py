"""What a program of ours finds out in a container of YARN: who it is, where, and the papers it was given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from tony.dataclass import dataclass, field, replace
from tony.errors import PlatformError
from tony.hadoop.tokens.credentials import TokenCredentials, read_file, write_file
from tony.schedulers.yarn.launch_payload import PLUG_IN, unpacked

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnv:
    """A container, seen from within.

    Attributes:
        container: its id.
        host: as the cluster calls the node.
        folder: its working folder.
        logs: folder whose files YARN shows and aggregates.
        shared: folder of this application on this node: its containers share it, and it goes with the application.
        http: host:port of the NodeManager's pages; empty if it has none.
        tokens: the file of credentials.
        credentials: what was in it.
        submitted: when the ResourceManager took the application, by its clock, seconds since 1970; None in containers
            of tasks, which are not told.
    """

    container: str
    host: str
    folder: Path
    logs: Path
    shared: Path
    http: str
    tokens: Path
    credentials: TokenCredentials = field(repr=False)
    submitted: float | None = None

    @classmethod
    def look(cls, environ: Mapping[str, str]) -> ContainerEnv:
        """Reads what YARN put into the environment.

        Raises:
            PlatformError: this is no container, or its credentials cannot be read.
        """
        try:
            tokens = Path(environ["HADOOP_TOKEN_FILE_LOCATION"])
            host, port = environ["NM_HOST"], environ.get("NM_HTTP_PORT", "")
            return cls(
                container=environ["CONTAINER_ID"],
                host=host,
                folder=Path.cwd(),
                logs=Path(environ["LOG_DIRS"].split(",")[0]),
                shared=Path(environ["LOCAL_DIRS"].split(",")[0]) / "tony",
                http=f"{host}:{port}" if port else "",
                tokens=tokens,
                credentials=read_file(tokens),
                submitted=_seconds(environ.get("APP_SUBMIT_TIME_ENV", "")),
            )
        except KeyError as error:
            raise PlatformError(f"this is no container of YARN: {error.args[0]} is not set") from None

    @property
    def attempt(self) -> int:
        """The how-manieth application master this one is, or belongs to."""
        from tony.hadoop import ids  # late: executors do not need it, nor all the records that it loads

        attempt = ids.container_id(self.container).attempt
        return attempt.number or 1 if attempt else 1

    def plug_in(self, framework_path: str | None) -> str | None:
        """Where the framework's adapter is imported from here, if it is no built-in one."""
        return None if framework_path is None else str(self.folder / PLUG_IN)

    def take(self, name: str, kind: type[T]) -> tuple[T, ContainerEnv]:
        """The papers of that name. They are gone from the file afterwards, for programs of the user can read it.

        Args:
            kind: JobPapers or TaskPapers.

        Raises:
            PlatformError: there are none.
        """
        try:
            papers = unpacked(kind, self.credentials.secrets[name])
        except (KeyError, ValueError) as error:
            raise PlatformError(f"{self.tokens} holds no papers {name!r} of this version: {error}") from error
        secrets = {alias: secret for alias, secret in self.credentials.secrets.items() if alias != name}
        left = replace(self.credentials, secrets=secrets)
        write_file(self.tokens, left)
        return papers, replace(self, credentials=left)


def _seconds(milliseconds: str) -> float | None:
    return int(milliseconds) / 1000 if milliseconds.isascii() and milliseconds.isdecimal() else None
