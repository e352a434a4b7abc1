"""Search engines of the web, one file each."""
