"""Text, pictures and pages, usable without a server."""
