"""What was answered before: one upstream call for identical requests, kept on disk, recorded and replayed."""
