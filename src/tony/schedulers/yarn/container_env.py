"""The environment of an AM or executor in a YARN container: ids, folders, credentials and launch payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from tony.errors import PlatformError
from tony.hadoop.tokens import TokenCredentials, read_file, write_file
from tony.schedulers.yarn.launch_payload import PLUG_IN, decode_payload

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnv:
    """A YARN container, seen from within.

    Attributes:
        host: the node's host name in the cluster.
        folder: its working directory.
        logs: folder whose files YARN shows and aggregates.
        shared: folder of this application on this node, shared by its containers and removed with the application.
        tokens: the credentials file.
        credentials: its content.
        submitted: when the ResourceManager accepted the application, by its clock, seconds since 1970; None in
            containers of tasks, where YARN does not set it.
    """

    container: str
    host: str
    folder: Path
    logs: Path
    shared: Path
    tokens: Path
    credentials: TokenCredentials = field(repr=False)
    submitted: float | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> ContainerEnv:
        """Read the environment that YARN sets.

        Raises:
            PlatformError: this is not a YARN container, or its credentials cannot be read.
        """
        try:
            tokens = Path(environ["HADOOP_TOKEN_FILE_LOCATION"])
            return cls(
                container=environ["CONTAINER_ID"],
                host=environ["NM_HOST"],
                folder=Path.cwd(),
                logs=Path(environ["LOG_DIRS"].split(",")[0]),
                shared=Path(environ["LOCAL_DIRS"].split(",")[0]) / "tony",
                tokens=tokens,
                credentials=read_file(tokens),
                submitted=_seconds(environ.get("APP_SUBMIT_TIME_ENV", "")),
            )
        except KeyError as error:
            raise PlatformError(f"not running in a YARN container: {error.args[0]} is not set") from None

    @property
    def attempt(self) -> int:
        """Number of the AM attempt that this process is, or belongs to."""
        from tony.hadoop import ids  # late: executors need neither it nor the records that it loads

        attempt = ids.parse_container_id(self.container).attempt
        return attempt.number or 1 if attempt else 1

    def plug_in(self, framework_path: str | None) -> str | None:
        """Return where the framework's plug-in is imported from; None for a built-in framework."""
        return None if framework_path is None else str(self.folder / PLUG_IN)

    def take_payload(self, name: str, kind: type[T]) -> tuple[T, ContainerEnv]:
        """Return the payload of that name, and remove it from the credentials file, which user programs can read.

        Args:
            kind: JobPayload or TaskLaunch.

        Raises:
            PlatformError: there is none.
        """
        try:
            payload = decode_payload(kind, self.credentials.secrets[name])
        except (KeyError, ValueError) as error:
            text = f"{self.tokens} has no launch payload {name!r} of this version of tony: {error}"
            raise PlatformError(text) from error
        secrets = {alias: secret for alias, secret in self.credentials.secrets.items() if alias != name}
        left = replace(self.credentials, secrets=secrets)
        write_file(self.tokens, left)
        return payload, replace(self, credentials=left)


def _seconds(milliseconds: str) -> float | None:
    return int(milliseconds) / 1000 if milliseconds.isascii() and milliseconds.isdecimal() else None
