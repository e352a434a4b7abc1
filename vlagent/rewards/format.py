"""The format reward (SenseNova-MARS, arXiv 2512.24330, section 3): decided on the turns, never on a transcript.

The parser has already judged each turn (`Turn.format_ok`); a retrieved page that holds our tags cannot change that.
"""

from __future__ import annotations

from vlagent.types import Trajectory, Turn


def format_reward(trajectory: Trajectory) -> tuple[float, str]:
    """1.0 if every turn before the last is one thought and one valid call and the last one thought and one answer.

    Returns the reward in {0.0, 1.0} and one line that says why.
    """
    if not trajectory.turns:
        return 0.0, "no turn was written"
    *calls, last = trajectory.turns
    for number, turn in enumerate(calls, 1):
        if problem := _problem(turn, number):
            return 0.0, problem
        if turn.call is None:
            return 0.0, f"turn {number} holds no call"
    if problem := _problem(last, len(trajectory.turns)):
        return 0.0, problem
    if not (last.answer or "").strip():
        return 0.0, "the last turn holds no answer"
    return 1.0, "every turn is in form"


def _problem(turn: Turn, number: int) -> str:
    if turn.error is not None:
        return f"turn {number} is invalid"
    if turn.format_ok:  # some repairs cost nothing: the parser knows which
        return ""
    why = f"was repaired: {', '.join(turn.repairs)}" if turn.repairs else "is out of form"
    return f"turn {number} {why}"
