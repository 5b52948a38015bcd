"""Tests of settings that are tables of any keys, such as the `template` of pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.jobs import list_errors, resolve, write
from tony.config.load import Resolved
from tony.config.resolved_table import list_resolved_rows

HEAD = 'command = "x"\nscheduler.name = "kubernetes"\n'
JOB = f"""{HEAD}
[scheduler.kubernetes.node_selector]
"topology.kubernetes.io/zone" = "a"
[roles.worker.kubernetes.template.spec.affinity.nodeAffinity]
requiredDuringSchedulingIgnoredDuringExecution = {{ nodeSelectorTerms = [{{ matchExpressions = [{{ key = "x" }}] }}] }}
[[roles.worker.kubernetes.template.spec.tolerations]]
tolerationSeconds = 30
key = "gpu"
"""
TEMPLATE = {
    "spec": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "x"}]}]
                }
            }
        },
        "tolerations": [{"tolerationSeconds": 30, "key": "gpu"}],
    }
}
YAML = """
command: x
scheduler: {name: kubernetes}
roles:
  worker:
    kubernetes:
      template:
        spec:
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms: [matchExpressions: [key: x]]
          tolerations: [{tolerationSeconds: 30, key: gpu}]
"""


def get_template(resolved: Resolved) -> object:
    return resolved.spec.roles["worker"].scheduler_settings["kubernetes"]["template"]


def test_a_table_is_taken_as_it_is(tmp_path: Path) -> None:
    resolved = resolve(tmp_path, JOB)
    assert get_template(resolved) == TEMPLATE
    assert resolved.spec.scheduler_settings == {"node_selector": {"topology.kubernetes.io/zone": "a"}}
    assert resolved.sources["roles.worker.kubernetes.template"] == "job.toml:6"
    assert get_template(resolve(tmp_path, YAML, name="job.yaml")) == TEMPLATE
    assert get_template(resolve(tmp_path, overrides=resolved.spec)) == TEMPLATE


def test_tables_of_several_sources_are_one(tmp_path: Path) -> None:
    site = write(tmp_path, "[scheduler.kubernetes.node_selector]\npool = 'a'\nrack = '1'\n", "site.toml")
    sets = ["scheduler.kubernetes.node_selector.pool=b", "scheduler.kubernetes.template.spec.hostNetwork=true"]
    resolved = resolve(tmp_path, HEAD, sites=[site], sets=sets)
    assert resolved.spec.scheduler_settings == {
        "node_selector": {"pool": "b", "rack": "1"},
        "template": {"spec": {"hostNetwork": True}},
    }
    assert resolved.sources["scheduler.kubernetes.node_selector"] == "--set"


def test_a_table_of_a_site_may_be_final(tmp_path: Path) -> None:
    final = 'final = ["scheduler.kubernetes.node_selector"]\n[scheduler.kubernetes.node_selector]\npool = "a"\n'
    site = write(tmp_path, final, "site.toml")
    own = f"{HEAD}[scheduler.kubernetes.node_selector]\npool = 'a'\n"
    assert resolve(tmp_path, own, sites=[site]).spec.scheduler_settings == {"node_selector": {"pool": "a"}}
    (error,) = list_errors(tmp_path, f"{own}rack = '1'\n", sites=[site])
    assert f'it is final on this site at {{ pool = "a" }} ({site}:2)' in error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "template = 3",
            'template = 3 (job.toml:4): expected a table such as { key = "value" }, not a whole number.',
        ),
        (
            "template.spec.a = [1, 1979-05-27]",
            ": spec.a[1]: expected text, a number, true, false, a list or a table, not a date.",
        ),
        ("template.spec.a.b = nan", ": spec.a.b: expected text, a number, true, false, a list or a table, not nan."),
        ('template.spec.a = "\\u0000"', ": spec.a: text cannot contain a NUL character."),
        ("tolerations = { a = 1 }", "expected a single value, not a table."),
    ],
)
def test_other_values_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    (error,) = list_errors(tmp_path, f"{HEAD}[scheduler.kubernetes]\n{text}\n")
    assert expected in error


def test_an_empty_value_in_a_table_is_named(tmp_path: Path) -> None:
    (error,) = list_errors(tmp_path, YAML.replace("{tolerationSeconds: 30, key: gpu}", "{key: }"), name="job.yaml")
    expected = "spec.tolerations[0].key: expected text, a number, true, false, a list or a table, not nothing."
    assert expected in error


def test_secrets_in_variables_of_a_table_are_masked(tmp_path: Path) -> None:
    variables = '[{ name = "HF_TOKEN", value = "hush" }, { name = "SITE", value = "http://me:word@host" }]'
    text = f'{HEAD}[[roles.worker.kubernetes.template.spec.containers]]\nname = "tony"\nenv = {variables}\n'
    rows = {row.key: row.value for row in list_resolved_rows(resolve(tmp_path, text))}
    shown = '[{ name = "HF_TOKEN", value = "***" }, { name = "SITE", value = "http://me:***@host" }]'
    expected = f'{{ spec = {{ containers = [{{ name = "tony", env = {shown} }}] }} }}'
    assert rows["roles.worker.kubernetes.template"] == expected
