"""Advantages and the objective as pure functions, one file an algorithm, chosen by name."""
