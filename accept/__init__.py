"""Acceptance: `make accept-N` measures what issue N promises and holds it against the bars of bars.toml."""
