"""Logs of a real container: followed at its node while it runs, and read from HDFS afterwards."""

from __future__ import annotations

import base64
import getpass
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.hadoop.logs.aggregated_logs import AggregatedLog, AggregatedLogs, LogsNotFoundError, find_places
from tony.hadoop.logs.node_web import NodeWeb, NodeWebError
from tony.mini.cluster import MiniCluster

USER = getpass.getuser()
CEILING = 90.0
#: Bytes that pages for people spoil, a log of some megabytes, and lines one after another until a file exists.
PROGRAM = r"""
printf '<b>&amp;</b> gr\303\274\303\237 \377\376\r\n\ttab\n'
head -c 5000000 /dev/zero | tr '\0' x > "$1/big"
: > "$1/empty"
i=0; until [ -e GATE ]; do i=$((i + 1)); echo "line $i"; sleep 0.1; done
echo end
"""
FIRST_LINES = b"<b>&amp;</b> gr\xc3\xbc\xc3\x9f \xff\xfe\r\n\ttab\n"


class Rest:
    """The ResourceManager's REST interface, as far as these tests need it."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._base = f"http://{cluster.state.address('rm.web')}/ws/v1/cluster/apps"

    def ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._base}{path}?user.name={USER}", data=data, headers=headers)
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def submit(self, program: str) -> str:
        """Runs a shell program in one container; it knows no master's protocol, so the application fails in the end."""
        packed = base64.b64encode(program.encode()).decode()
        application = self.ask("/new-application", {})["application-id"]
        command = f"echo {packed} | base64 -d | bash -s <LOG_DIR> 1><LOG_DIR>/stdout"
        self.ask(
            "",
            {
                "application-id": application,
                "application-name": "logs",
                "application-type": "TEST",
                "max-app-attempts": 1,
                "resource": {"memory": 128, "vCores": 1},
                "am-container-spec": {"commands": {"command": command}},
            },
        )
        return str(application)

    def container(self, application: str) -> tuple[str, str]:
        """URL of the node, and the container, when there is one."""
        deadline = time.monotonic() + CEILING
        while True:
            url = self.ask(f"/{application}")["app"].get("amContainerLogs", "")
            if "/containerlogs/container_" in url:
                return url.partition("/node/")[0], url.split("/containerlogs/")[1].split("/")[0]
            assert time.monotonic() < deadline
            time.sleep(0.1)


def _aggregated(logs: AggregatedLogs, application: str) -> dict[str, AggregatedLog]:
    deadline = time.monotonic() + CEILING
    while True:
        try:
            return {log.name: log for log in logs.find(application, USER)}
        except LogsNotFoundError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_a_log_from_its_first_line_to_its_grave(cluster: MiniCluster, tmp_path: Path) -> None:
    """Followed by offsets at the node until the node has it no more, then read on in HDFS: no byte twice, none lost."""
    rest = Rest(cluster)
    gate = tmp_path / "gate"
    application = rest.submit(PROGRAM.replace("GATE", str(gate)))
    followed = b""
    seen = 0
    try:
        url, container = rest.container(application)
        deadline = time.monotonic() + CEILING
        with NodeWeb(url, USER) as node:
            while time.monotonic() < deadline:
                try:
                    with node.open(container, "stdout", len(followed)) as stream:
                        new = stream.read()
                except NodeWebError as error:
                    if not error.is_missing:
                        raise
                    if seen:
                        break
                else:
                    seen += bool(new)
                    followed += new
                    if seen > 3 and b"line 4\n" in followed:
                        gate.touch()
                time.sleep(0.1)
    finally:
        gate.touch()
    settings = HadoopConfiguration.load(cluster.conf, {})
    namenode = f"http://{cluster.state.address('nn.web')}"
    with WebHdfs([namenode], WebLogin(user=USER)) as files:
        logs = AggregatedLogs(files, find_places(settings.get))
        found = _aggregated(logs, application)
        whole = followed + b"".join(logs.read(found["stdout"], len(followed)))
        lines = range(1, whole.count(b"\n") - FIRST_LINES.count(b"\n"))
        assert whole == FIRST_LINES + b"".join(b"line %d\n" % number for number in lines) + b"end\n"
        assert len(lines) > 3
        assert found["empty"].length == 0
        assert b"".join(logs.read(found["big"], 4_999_990)) == b"x" * 10
        assert sum(len(part) for part in logs.read(found["big"])) == 5_000_000
        assert found["stdout"].container == container
