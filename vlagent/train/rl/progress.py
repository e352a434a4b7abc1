"""What a person sees of a run of reinforcement learning."""

from __future__ import annotations

from typing import Any

from vlagent.train.progress import Meter


class RlMeter(Meter):
    """Success, reward, calls and time of each step."""

    def words(self, values: dict[str, Any]) -> str:
        """What is shown of a step's metrics."""
        shown = {"success": "success/all", "reward": "reward/mean", "calls": "calls/all"}
        words = [f"{name} {values[key]:.3f}" for name, key in shown.items() if key in values]
        return "  ".join([*words, f"{values['time/step_s']:.1f} s/step"])

    def doing(self, text: str) -> None:
        """What goes on in a long step; only a terminal shows it."""
        if self._bar:
            self._bar.update(self._task, description=text)
