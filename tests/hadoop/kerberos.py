"""A Kerberos of our own: MIT's KDC on a port of this machine, principals, keytabs, tickets."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.waiting import block_until
from tony.mini.free_ports import choose_ports

REALM = "TONY.TEST"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))

_CLIENT = """[libdefaults]
 default_realm = {realm}
 udp_preference_limit = 1
 rdns = false
 dns_canonicalize_hostname = false
 dns_lookup_realm = false
 dns_lookup_kdc = false
 default_ccache_name = FILE:{folder}/none.cc
[realms]
 {realm} = {{
  kdc = {host}:{port}
 }}
"""
_SERVER = """[kdcdefaults]
 kdc_listen = {host}:{port}
 kdc_tcp_listen = {host}:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_renewable_life = 7d
 }}
[logging]
 default = FILE:{folder}/kdc.log
"""


def missing() -> str:
    """The program that is not there, and what installs it; empty if all are."""
    for program in _PROGRAMS:
        if shutil.which(program, path=_PATH) is None:
            return f"no {program} here; apt-get install krb5-kdc krb5-admin-server krb5-user"
    return ""


class Kdc:
    """One KDC, running from `start` to `stop`.

    Args:
        host: its address.
        enter: command that runs a program where that address is, such as in another network namespace.

    Attributes:
        folder: its database, settings, keytabs and tickets.
        environment: what its clients need in theirs.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1", enter: Sequence[str] = ()) -> None:
        self.folder = folder
        self._host, self._enter = host, enter
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHEDIR": str(folder),
        }

    def start(self) -> None:
        port = choose_ports(["kdc"])["kdc"]
        given = {"realm": REALM, "folder": self.folder, "host": self._host, "port": port}
        (self.folder / "krb5.conf").write_text(_CLIENT.format(**given))
        (self.folder / "kdc.conf").write_text(_SERVER.format(**given))
        self._run("kdb5_util", "create", "-s", "-P", "master")
        command = [*self._enter, str(shutil.which("krb5kdc", path=_PATH)), "-n"]
        with (self.folder / "krb5kdc.out").open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        block_until(lambda: "commencing operation" in (self.folder / "kdc.log").read_text())

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def keytab(self, principal: str) -> Path:
        """Makes a principal with a random key; the file that holds the key."""
        path = self.folder / f"{principal.replace('/', '.')}.keytab"
        if not path.exists():
            self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def ticket(self, principal: str, *, lifetime: str = "1h") -> str:
        """Gets a ticket; what KRB5CCNAME must say to use it."""
        cache = f"FILE:{self.folder}/{principal.replace('/', '.')}.{lifetime}.cc"
        keytab = self.keytab(principal)
        self._run("kinit", "-l", lifetime, "-c", cache, "-k", "-t", str(keytab), principal)
        return cache

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, **self.environment, "PATH": _PATH}

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._enter, str(shutil.which(program, path=_PATH)), *arguments]
        done = subprocess.run(
            command,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout.decode(errors='replace')}"
