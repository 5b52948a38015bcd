"""The status of a job: from its AM (here or elsewhere), its summary or its scheduler; also if its AM died."""
