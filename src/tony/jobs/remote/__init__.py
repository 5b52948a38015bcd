"""Jobs on other machines: keeps the job directory here up to date, and fetches output."""
