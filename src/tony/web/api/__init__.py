"""The JSON API, `/api/v1/`: the data of the pages. A decorator declares each operation at its handler.

operation         definition of an operation: path, parameters, response
response_types    response types that are not in `model/`
job_operations, log_operations, job_actions   the operations
server            routing, authentication, parameters, encoding of responses
openapi           JSON Schema of dataclasses, and the OpenAPI document
"""

from __future__ import annotations

from tony.web.api.request_handler import Api as Api
