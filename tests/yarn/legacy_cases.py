"""LinkedIn TonY's end-to-end table in its own words: programs, flags, settings, and how each job ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: What its programs answer if a job fails: -1.
FAILED = 255
SCRIPTS = {
    "fail.py": "import sys, time; time.sleep(0.2); sys.exit(1)",
    "env.py": "import os, sys; sys.exit(os.environ['ENV_CHECK'] != 'ENV_CHECK')",
    "venv.py": "import os, sys; sys.exit(os.environ['ENV_CHECK'] != 'ENV_CHECK' or not os.path.exists('venv/123.xml'))",
    "hvd.py": (
        "import os\n"
        "for name in ('CONTROLLER', 'CPU_OPERATIONS', 'GLOO_TIMEOUT_SECONDS', 'GLOO_RENDEZVOUS_ADDR',\n"
        "             'GLOO_RENDEZVOUS_PORT', 'CROSS_RANK', 'CROSS_SIZE', 'LOCAL_RANK', 'LOCAL_SIZE', 'SIZE', 'RANK',\n"
        "             'HOSTNAME'):\n"
        "    assert os.environ['HOROVOD_' + name]\n"
        "assert os.environ['JOB_NAME'] == 'worker'\n"
        "open(f\"{os.environ['OUT']}/{os.environ['CASE']}-{os.environ['HOROVOD_RANK']}\", 'w').close()\n"
    ),
    "stage.py": (
        "import os, time\n"
        "with open(f\"{os.environ['OUT']}/{os.environ['CASE']}-{os.environ['JOB_NAME']}\", 'w') as file:\n"
        "    print(time.time(), file=file)\n"
        "    time.sleep(0.3)\n"
        "    print(time.time(), file=file)\n"
    ),
    # Starts nothing: the workers of this test do not compute. Writes the file that LinkedIn TonY waits for.
    "driver.py": (
        "import json, os, sys, time\n"
        "hosts = [each.split(':') for each in os.environ['CLUSTER_WORKER_LIST'].split(',')]\n"
        "size, rank, slots = sum(int(count) for _, count in hosts), 0, []\n"
        "for number, (host, count) in enumerate(hosts):\n"
        "    for local in range(int(count)):\n"
        "        slots.append({'hostname': host, 'rank': rank, 'localRank': local, 'crossRank': number, 'size': size,\n"
        "                      'localSize': int(count), 'crossSize': len(hosts)})\n"
        "        rank += 1\n"
        "path = os.path.join(os.environ['DRIVER_OUTPUT_PATH'], sys.argv[-1] + '____HOROVOD_RENDEZVOUS_SERVER____')\n"
        "with open(path + '.new', 'w') as file:\n"
        "    json.dump(slots, file)\n"
        "os.rename(path + '.new', path)\n"
        "time.sleep(3600)\n"
    ),
    "see.py": (
        "import os\n"
        "names = sorted(os.listdir('.'))\n"
        "with open(f\"{os.environ['OUT']}/{os.environ['CASE']}\", 'w') as file:\n"
        "    print(*names, os.environ.get('CLASSPATH', '-'), file=file)\n"
    ),
}
CHECK = ("--shell_env", "ENV_CHECK=ENV_CHECK")
VENV = ("--python_venv", "venv.zip")
PYTHON = ("--python_binary_path", "python3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job in LinkedIn TonY's words, and its end.

    Attributes:
        conf: what is given with `--conf`; each type with tasks gets little memory.
        skip: SKIP_HADOOP_PATH is given, as in most of LinkedIn TonY's own cases.
        classpath: given with `--hdfs_classpath`.
    """

    flags: tuple[str, ...]
    conf: Mapping[str, str] = field(default_factory=dict)
    code: int = 0
    states: Mapping[str, str] | None = None
    skip: bool = True
    classpath: str = "{place}/libs"


def types(**instances: int) -> dict[str, str]:
    return {f"tony.{name}.instances": str(number) for name, number in instances.items()}


CASES = {
    "e1": Case(flags=("--executes", "env.py", *PYTHON, *CHECK), states={"main:0": "succeeded"}),
    "e4": Case(flags=("--executes", "python3 venv.py", *VENV, *CHECK), conf=types(worker=1)),
    "e6": Case(flags=("-executes", "fail.py", "-python_binary_path=python3"), conf=types(worker=1, ps=1), code=FAILED),
    "e12": Case(
        flags=("--executes", "stage.py", *PYTHON),
        conf={
            **types(worker=1, ps=1, db=1, dbloader=1),
            "tony.application.prepare-stage": "dbloader,db",
            "tony.application.training-stage": "ps,worker",
        },
    ),
    "e21": Case(
        flags=(*VENV, *CHECK),
        conf={
            **types(sidecarexecutor=1, worker=1),
            "tony.sidecarexecutor.command": "python3 fail.py",
            "tony.worker.command": "sleep 1; python3 venv.py",
            "tony.application.sidecar.jobtypes": "sidecarexecutor",
        },
        states={"worker:0": "succeeded", "sidecarexecutor:0": "failed"},
    ),
    "e22": Case(
        flags=VENV,
        conf={
            **types(worker=1, driver=1),
            "tony.worker.command": "sleep 600",
            "tony.driver.command": "python3 fail.py",
            "tony.application.framework": "horovod",
            "tony.horovod.driver.mode.debug": "true",
            "tony.application.untracked.jobtypes": "driver",
        },
        code=FAILED,
    ),
    "e23": Case(
        flags=("--executes", "python3 hvd.py", *VENV),
        conf={**types(worker=2), "tony.application.framework": "horovod", "tony.horovod.mode.test": "true"},
    ),
    "e24": Case(
        flags=("--executes", "python3 hvd.py", *VENV),
        conf={
            **types(worker=2, driver=1),
            "tony.driver.vcores": "1",
            "tony.driver.command": "python3 driver.py -t -p 9999",
            "tony.application.framework": "horovod",
            "tony.horovod.mode.test": "true",
            "tony.horovod.driver.mode.debug": "true",
            "tony.application.untracked.jobtypes": "driver",
        },
    ),
}
