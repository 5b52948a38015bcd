"""Quantities of the Kubernetes API, such as `500m` CPUs or `2Gi` bytes.

Source: `k8s.io/apimachinery/pkg/api/resource/quantity.go`, v1.36.
"""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"(\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:([numkMGTPE]|[KMGTPE]i)|[eE](-?\d{1,2}))?", re.ASCII)
_FACTORS = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", -3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def parse_quantity(text: str) -> Decimal:
    """Parse a quantity that is not negative.

    Raises:
        ValueError: it is none.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r:.80} is not a quantity")
    number, suffix, exponent = found.groups()
    if exponent:
        return Decimal(number).scaleb(int(exponent))
    return Decimal(number) * (_FACTORS[suffix] if suffix else 1)
