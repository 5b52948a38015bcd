"""The JSON API, `/api/v1/`: the data of the pages. One table of operations defines routes and OpenAPI document.

operation         definition of an operation: path, parameters, response
responses         response types that are not in `model/`
operation_table   all operations
server            routing, authentication, parameters, encoding of responses
openapi           JSON Schema of dataclasses, and the OpenAPI document
jobs, job_parts, logs, job_actions   handlers of the operations
"""

from __future__ import annotations

from tony.web.api.server import Api as Api
