"""YARN's services, as their clients see them."""
