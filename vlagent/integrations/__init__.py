"""Adapters to other programs: they run our loop, tools and rewards inside of theirs."""
