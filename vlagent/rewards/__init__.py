"""Answer match, options, format, judge."""
