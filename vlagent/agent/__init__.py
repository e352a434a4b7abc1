"""One sample in, one trajectory out."""
