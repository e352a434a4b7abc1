"""Build a benchmark like HR-MMSearch (arXiv 2512.24330, section 4): collect, filter, annotate, check, difficulty."""
