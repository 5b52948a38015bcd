"""Checks of settings against each other, against plug-ins and against the machine."""
