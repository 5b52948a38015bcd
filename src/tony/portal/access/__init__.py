"""Who may use the portal: its address, tokens and login pages."""
