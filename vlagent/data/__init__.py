"""Manifests and rows that users already have."""
