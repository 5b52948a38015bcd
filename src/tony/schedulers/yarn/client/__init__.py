"""The client's side of YARN: feasibility, upload, submission, queues, links and logs of ended jobs."""
