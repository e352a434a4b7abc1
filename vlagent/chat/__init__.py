"""Models behind messages."""
