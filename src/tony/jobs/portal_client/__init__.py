"""Jobs of a portal, through its JSON API; and where the user's own portal runs."""
