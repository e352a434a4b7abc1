"""Many small runs of reinforcement learning that differ in one thing, and what they show."""
