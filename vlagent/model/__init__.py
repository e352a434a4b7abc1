"""torch: loading, log-probabilities, local generation, checkpoints."""
