"""Hadoop's own RPC server, compiled from `java/FakeDaemon.java` and started once for all tests of a run."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.hadoop.url_tokens import from_url_string
from tony.address import Address
from tony.errors import TonyError
from tony.hadoop.wire.rpc import Token
from tony.mini.software import fetch, find_java

HADOOP = "3.4.2"
_SOURCE = Path(__file__).parent / "java" / "FakeDaemon.java"
#: Seconds until a Java that does not get ready counts as hung.
_TIMEOUT_SECONDS = 120.0
_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto", "-Xmx160m")


class JavaDaemon:
    """A Java with several servers in it.

    Attributes:
        tokens: user -> a token that all servers take (that of `expired` none does).
        folder: where its files lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens: dict[str, Token] = {}
        self._ports: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, token_file: Path, servers: Sequence[str], properties: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        """Compiles and starts it; ready when this returns.

        Args:
            servers: `auth:protection` each, as the Java program takes them.
            properties: for `-D`.
        """
        java = find_java(os.environ, HADOOP).home
        jars = fetch(HADOOP, find_java(os.environ, HADOOP), os.environ, print)
        javac = [str(java / "bin" / "javac"), "-nowarn", "-d", str(self.folder), "-cp", f"{jars}/*", str(_SOURCE)]
        subprocess.run(javac, check=True, timeout=_TIMEOUT_SECONDS, stdin=subprocess.DEVNULL)
        command = [str(java / "bin" / "java"), *_FLAGS, *(f"-D{name}={value}" for name, value in properties.items())]
        command += ["-cp", f"{self.folder}:{jars}/*", "FakeDaemon", str(token_file), *servers]
        with (self.folder / "err").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        for line in self._lines(self._process.stdout):
            name, _, value = line.partition(" ")
            if name.startswith("for:"):
                self.tokens[name.removeprefix("for:")] = from_url_string(value)
            else:
                self._ports[name] = int(value)

    def address(self, server: str) -> Address:
        return Address(host="localhost", port=self._ports[server])

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _lines(self, out: IO[bytes]) -> list[str]:
        os.set_blocking(out.fileno(), False)
        said = b""
        end = time.monotonic() + _TIMEOUT_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while not said.endswith(b"ready\n"):
                assert time.monotonic() < end, f"Java is not ready: {self._errors()}"
                if selector.select(timeout=1.0):
                    piece = out.read()
                    assert piece, f"Java has ended: {self._errors()}"
                    said += piece
        return said.decode().splitlines()[:-1]

    def _errors(self) -> str:
        return (self.folder / "err").read_text(errors="replace")[-3000:]


def missing() -> str:
    """Why it cannot be started here; empty if it can."""
    try:
        java = find_java(os.environ, HADOOP).home
    except TonyError as error:
        return str(error)
    if not (java / "bin" / "javac").exists():
        return f"no javac in {java}; apt-get install default-jdk-headless"
    if shutil.which("mvn") is None:
        return "no Maven here, which fetches Hadoop; apt-get install maven"
    return ""
