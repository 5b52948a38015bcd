"""The Role of application masters is the same in the code and on the page."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tony.schedulers.kubernetes.access_rules import build_account_objects

PAGE = Path(__file__).parents[3] / "docs" / "kubernetes.md"


def test_the_page_has_the_objects_that_are_created() -> None:
    (manifest,) = re.findall(r"```yaml\n(apiVersion.*?)```", PAGE.read_text(), re.DOTALL)
    assert list(yaml.safe_load_all(manifest)) == [body for _, body in build_account_objects("tony")]
