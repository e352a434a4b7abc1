"""Pages made from run folders."""
