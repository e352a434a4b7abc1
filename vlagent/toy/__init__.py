"""A small drawn world in the formats of real data."""
