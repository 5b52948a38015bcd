"""Tests of `[[diagnosis.rules]]` in job files and site files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.jobs import list_errors, resolve, write
from tests.facts import mentions
from tony.config.checks.rule_checks import MAX_RULES
from tony.model.diagnosis import FailureKind
from tony.model.own_rule import OwnRule
from tony.model.setting_choices import RuleMeaning

COMMAND = 'command = "x"\n'
RULE = '[[diagnosis.rules]]\nname = "full"\npattern = "disk is full"\nclass = "quota"\n'
FULL = OwnRule(name="full", pattern="disk is full", kind=FailureKind.QUOTA)


def test_a_rule_of_a_job(tmp_path: Path) -> None:
    more = f'{RULE}meaning = "consequence"\nretry = true\nadvice = "clean up"\n'
    (rule,) = resolve(tmp_path, COMMAND + more).spec.diagnosis_rules
    assert rule == OwnRule(
        name="full",
        pattern="disk is full",
        kind=FailureKind.QUOTA,
        meaning=RuleMeaning.CONSEQUENCE,
        retry=True,
        advice="clean up",
    )


def test_a_rule_in_yaml_and_in_python(tmp_path: Path) -> None:
    text = "command: x\ndiagnosis:\n  rules:\n    - name: full\n      pattern: disk is full\n      class: quota\n"
    assert resolve(tmp_path, text, name="job.yaml").spec.diagnosis_rules == (FULL,)
    rules = [{"name": "full", "pattern": "disk is full", "class": "quota"}]
    assert resolve(tmp_path, overrides={"command": "x", "diagnosis": {"rules": rules}}).spec.diagnosis_rules == (FULL,)


def test_a_job_adds_to_the_rules_of_its_site_and_replaces_one_by_its_name(tmp_path: Path) -> None:
    site = write(tmp_path, RULE + RULE.replace("full", "gone"), "site.toml")
    job = f"{COMMAND}{RULE.replace('full', 'late')}{RULE.replace('quota', 'storage')}"
    rules = resolve(tmp_path, job, sites=[site]).spec.diagnosis_rules
    assert [(rule.name, rule.kind.value) for rule in rules] == [
        ("full", "storage"),
        ("gone", "quota"),
        ("late", "quota"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"disk is full"', '"disk ["', ("diagnosis.rules.full.pattern", "job.toml:4", "not a regular expression")),
        ('"disk is full"', '"a*"', ("diagnosis.rules.full.pattern", "job.toml:4", "empty")),
        ('"disk is full"', '"(a+)+ full"', ("diagnosis.rules.full.pattern", "job.toml:4", "very long")),
        ('"quota"', '"qouta"', ("diagnosis.rules.full.class", "job.toml:5", "quota")),
        ('class = "quota"', 'meaning = "cause"', ("diagnosis.rules.full", "job.toml:2", "`class` is missing")),
        ('class = "quota"', 'class = "quota"\nkind = "x"', ("diagnosis.rules.full.kind", "job.toml:6", "unknown key")),
        ('class = "quota"', 'class = "quota"\nretry = "yes"', ("diagnosis.rules.full.retry", "job.toml:6")),
        ('class = "quota"', 'class = "quota"\nmeaning = "summary"', ("diagnosis.rules.full.meaning", "job.toml:6")),
        ('class = "quota"', 'class = "quota"\nadvice = "a\\nb"', ("diagnosis.rules.full.advice", "job.toml:6")),
        ('name = "full"', 'name = "Full!"', ("Full!", "job.toml:2", "a name of its own")),
        ('name = "full"\n', "", ("[0]", "job.toml:2", "a name of its own")),
    ],
)
def test_errors_name_the_key_and_the_line(tmp_path: Path, old: str, new: str, words: tuple[str, ...]) -> None:
    (error,) = list_errors(tmp_path, COMMAND + RULE.replace(old, new))
    assert mentions(error, *words)


def test_an_error_in_a_site_file_names_that(tmp_path: Path) -> None:
    site = write(tmp_path, RULE + RULE.replace("disk is full", "a*").replace('"full"', '"b"'), "site.toml")
    (error,) = list_errors(tmp_path, COMMAND + RULE, sites=[site])
    assert mentions(error, "diagnosis.rules.b.pattern", f"{site}:7")


def test_two_rules_of_one_name_in_a_file(tmp_path: Path) -> None:
    (error,) = list_errors(tmp_path, COMMAND + RULE + RULE)
    assert mentions(error, "full", "job.toml:6", "a name of its own")


def test_the_number_is_limited(tmp_path: Path) -> None:
    many = "".join(RULE.replace('"full"', f'"full-{number}"') for number in range(MAX_RULES + 1))
    (error,) = list_errors(tmp_path, COMMAND + many)
    assert mentions(error, "diagnosis.rules", str(MAX_RULES))
