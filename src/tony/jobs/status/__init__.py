"""The status of a job: from its AM, its summary or its scheduler; also if its AM died or cannot be reached."""
