"""Speed, each file against a named peer or bound; run as `python benchmarks/NAME.py`."""
