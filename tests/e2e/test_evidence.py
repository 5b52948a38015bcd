"""What a real job says about its failure: memory that is raised, rules of its own, patches and warnings."""

from __future__ import annotations

import json

import pytest

from tests.e2e.lab import Lab
from tests.facts import mentions

pytestmark = pytest.mark.e2e

#: Uses as many MiB as the argument says.
HUNGRY = """
import sys
rows = [b"x" * (1 << 20) * int(sys.argv[1])]
print("enough", flush=True)
"""


def test_a_task_that_was_killed_for_memory_restarts_with_more(lab: Lab) -> None:
    text = (
        'command = "python x.py 150"\nmax_restarts = 3\nmemory_on_oom = { factor = 2, up_to = "256m" }\n'
        '[roles.worker]\nmemory = "64m"\n'
    )
    done = lab.submit(lab.job_file(text, {"x.py": HUNGRY}))
    assert done.returncode == 0, done.stdout + done.stderr
    job = lab.jobs()[-1]
    report = lab.status(job)
    assert report["session"] == 3
    assert report["raised_memory"] == [{"role": "worker", "memory": 256 << 20, "requested": 64 << 20}]
    assert mentions(lab.tony("status", job).stdout, "worker 256m")
    assert mentions(lab.tony("events", job).stdout, "worker gets 128m", "worker gets 256m")


def test_a_job_that_may_have_no_more_memory_says_so(lab: Lab) -> None:
    text = (
        'command = "python x.py 300"\nmax_restarts = 3\nmemory_on_oom = { factor = 2, up_to = "96m" }\n'
        '[roles.worker]\nmemory = "64m"\n'
    )
    done = lab.submit(lab.job_file(text, {"x.py": HUNGRY}))
    assert done.returncode == 1
    assert mentions(done.stderr, "Not restarted", "memory_on_oom.up_to = 96m")
    why = json.loads(lab.tony("why", lab.jobs()[-1], "--json").stdout)
    assert (why["class"], why["patch"]) == ("memory", ["[roles.worker]", 'memory = "144m"'])


def test_a_rule_of_the_job_says_what_its_message_means(lab: Lab) -> None:
    text = (
        """command = "echo 'TAPE-7 left us'; exit 3"\n[[diagnosis.rules]]\nname = "tape"\n"""
        """pattern = 'TAPE-\\d+ left'\nclass = "storage"\nadvice = "call Ann"\n"""
    )
    done = lab.submit(lab.job_file(text))
    assert mentions(done.stderr, "TAPE-7 left us", "call Ann")
    job = lab.jobs()[-1]
    why = json.loads(lab.tony("why", job, "--json").stdout)
    assert (why["class"], why["retry"], why["evidence"][0]["rule"]) == ("storage", False, "diagnosis.rules.tape")
    assert mentions(lab.tony("why", job, "--explain").stdout, "diagnosis.rules.tape", "storage")


def test_a_missing_script_without_a_source(lab: Lab) -> None:
    """It is refused if it is plain that there is none, else the failure is explained."""
    refused = lab.submit(lab.job_file('command = "python train.py"\n'))
    assert mentions(refused.stderr, "source is not set", "nothing was started")
    lab.submit(lab.job_file('command = "sleep 0; python train.py"\n'))
    shown = lab.tony("why", lab.jobs()[-1]).stdout
    assert mentions(shown, "source is not set", 'source = "."')


def test_a_traceback_that_the_exit_code_hides_is_a_warning(lab: Lab) -> None:
    done = lab.submit(lab.job_file('command = "python x.py | cat; echo done"\n', {"x.py": "{}['rate']"}))
    assert done.returncode == 0
    assert mentions(done.stderr, "Warning", "main:0", "KeyError: 'rate'")
    job = lab.jobs()[-1]
    assert mentions(lab.tony("status", job).stdout, "Warning", "KeyError: 'rate'")
    (warning,) = lab.status(job)["warnings"]
    assert mentions(warning, "main-0.s1.t1.err")
