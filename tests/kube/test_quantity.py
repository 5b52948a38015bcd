"""Quantities as the API writes them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tony.kube.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"),
        ("500m", "0.5"),
        ("100n", "0.0000001"),
        ("1.5", "1.5"),
        (".5G", "500000000"),
        ("2Gi", "2147483648"),
        ("16374Ki", "16766976"),
        ("1E", "1000000000000000000"),
        ("12e2", "1200"),
        ("1E-1", "0.1"),
    ],
)
def test_a_quantity_is_a_number(text: str, expected: str) -> None:
    assert parse_quantity(text) == Decimal(expected)


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "-1", "1e999", "1.2.3", "NaN", "1" * 40, "\u0661"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)
