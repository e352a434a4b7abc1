"""Suites, evaluation, metrics, comparison."""
