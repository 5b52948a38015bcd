"""Which files of the submitter are staged."""
