"""What has to be on the disk before a cluster starts."""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
import sys
from pathlib import Path

from tony.errors import InfraError, UserError
from tony.mini import hadoop_command, site_xml
from tony.mini.cluster_state import ClusterState
from tony.mini.daemons import MiniDaemon, command
from tony.mini.layout import Places
from tony.mini.processes import last_words

#: Without these folders, which Hadoop's archives in Maven lack, NameNode and DataNode refuse to start.
_WEB = ("hdfs", "datanode", "secondary", "static")
#: Hadoop's own lists are divided by commas, colons and blanks, `$` begins a variable, `%` an octet of an address.
_USABLE = re.compile(r"[A-Za-z0-9._/@+=~-]+")


def user_name() -> str:
    """As Java knows the user: by the password file, whatever the environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise UserError(f"Hadoop does not run for user {os.geteuid()}, who is not in the password file.") from None


def check_place(path: Path) -> None:
    """Refuses a folder in which Hadoop cannot live.

    Raises:
        UserError: says why, and what to do.
    """
    if not _USABLE.fullmatch(str(path)):
        raise UserError(
            f"Hadoop cannot live in {path}: use only letters, digits and ._@+=~- in the folder's name. "
            "Set TONY_HOME to another one."
        )


def write_files(state: ClusterState, places: Places) -> None:
    """Makes every file and folder that daemons expect to find."""
    for folder in (places.logs, places.bin, places.tmp, *(places.web / "webapps" / name for name in _WEB)):
        folder.mkdir(parents=True, exist_ok=True)
    for daemon in state.daemons:
        places.own_conf(daemon.name).mkdir(parents=True, exist_ok=True)
    places.conf.mkdir(exist_ok=True)
    for name, text in site_xml.render(state, places, user_name()).items():
        (places.path / name).write_text(text, encoding="utf-8")
    places.hosts.write_text(site_xml.hosts(state, socket.gethostname()), encoding="utf-8")
    python = places.bin / "python3"
    python.unlink(missing_ok=True)
    python.symlink_to(_interpreter())
    hadoop_command.write(Path(state.java), Path(state.jars), places)


def format_name_node(state: ClusterState, places: Places, variables: dict[str, str]) -> None:
    """Makes an empty file system.

    Raises:
        InfraError: Java or Hadoop failed; says how.
    """
    log = places.log("format")
    line = command(MiniDaemon("nn"), Path(state.java), Path(state.jars), places, "-format", "-nonInteractive")
    with open(log, "wb") as file:
        done = subprocess.run(
            line, env=variables, cwd=places.path, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
        )
    if done.returncode != 0:
        raise InfraError("\n".join([f"the NameNode's folder could not be made; see {log}:", *last_words(log)]))


def _interpreter() -> str:
    """The interpreter below a virtual environment: nodes of a cluster know nothing of the client's."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
