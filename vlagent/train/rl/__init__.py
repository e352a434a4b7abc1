"""Reinforcement learning in the loop that everything else uses."""
