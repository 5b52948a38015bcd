"""Access to the portal: its address, tokens and login pages."""
