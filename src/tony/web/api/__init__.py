"""The JSON API, `/api/v1/`: what pages show, for programs. One table of operations makes routes and OpenAPI document.

operations   what an operation is: address, parameters, answer
shapes       the answers that are no nouns of `model/`
table        all operations
server       finds the operation, reads parameters, asks the gate, answers
schema       JSON Schema of dataclasses, and the OpenAPI document
jobs, parts, logs, changes   what operations do
"""

from __future__ import annotations

from tony.web.api.server import Api as Api
