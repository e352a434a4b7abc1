"""Rows, batches, SFT."""
