"""vlagent: a vision-language agent that looks, thinks, crops and searches; its training, data and measurement."""

__version__ = "0.1.0"
