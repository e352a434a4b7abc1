"""What an evaluation will take, before it starts: tokens, money, time. Measured means where there are some.

Assumed otherwise: turns and tokens of a turn as below, which are those of published agent runs to within a factor of
two. The estimate says on what it rests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from vlagent.bench.config import EvalConfig
from vlagent.bench.summary import SuiteSummary, Summary, summarise
from vlagent.render.sizing import fit
from vlagent.rewards.matcher import NAME as MATCHER
from vlagent.types import Record, Sample

AGENT_TURNS = 4.0
TURN_TOKENS = 300
"""New tokens of one turn, its thought included."""
SEEN_TOKENS = 600
"""Of one observation: a summary, or a crop."""
SYSTEM_TOKENS = {"agent": 1200, "rag": 900, "direct": 100}
TURN_S = 6.0
TOOL_S = 1.5
JUDGE_TOKENS = (900, 150)
JUDGED_SHARE = 0.6
"""Of open answers: the rest is accepted by a rule."""
CHARS_PER_TOKEN = 3.5


class Basis(Record):
    """Means of one episode that an estimate rests on."""

    source: str
    """`assumed`, or the run that it was measured in."""
    turns: float
    turn_tokens: float
    seconds: float
    """Of one episode."""
    judged_share: float
    prompt_tokens: float | None = None
    """Measured; None is computed from the pictures and the turns."""


class Estimate(Record):
    """The cost of an evaluation that has not run."""

    questions: int
    episodes: int
    pictures: int
    megapixels: float
    """As the model will see them, all questions together."""
    prompt_tokens: int
    completion_tokens: int
    judge_calls: int
    judge_tokens: int
    cost_usd: float | None
    """None where no price is set."""
    seconds: float
    most_tokens: int
    """If every episode went to its last turn."""
    basis: Basis


def estimate(config: EvalConfig, samples: Sequence[Sample], like: Path | None = None) -> Estimate:
    """Estimate an evaluation; `like` is an earlier run of the like of it. Raises `UserError` where that is none."""
    basis = measured(like) if like else assumed(config)
    episodes = sum(config.rollouts_of(sample.source) for sample in samples)
    views = [[fit(image.width, image.height, config.agent.pixels) for image in sample.images] for sample in samples]
    prompt = sum(
        config.rollouts_of(sample.source) * (basis.prompt_tokens or _prompt_tokens(config, sample, own, basis.turns))
        for sample, own in zip(samples, views, strict=True)
    )
    most = sum(
        config.rollouts_of(sample.source) * _prompt_tokens(config, sample, own, float(_max_turns(config)))
        for sample, own in zip(samples, views, strict=True)
    )
    completion = episodes * basis.turns * basis.turn_tokens
    judge_calls = _judge_calls(config, samples, basis)
    return Estimate(
        questions=len(samples),
        episodes=episodes,
        pictures=sum(map(len, views)),
        megapixels=round(sum(width * height for own in views for width, height in own) / 1e6, 1),
        prompt_tokens=round(prompt),
        completion_tokens=round(completion),
        judge_calls=round(judge_calls),
        judge_tokens=round(judge_calls * sum(JUDGE_TOKENS)),
        cost_usd=_cost(config, prompt, completion, judge_calls),
        seconds=round(episodes * basis.seconds / min(config.concurrency, max(1, episodes)), 1),
        most_tokens=round(max(most + episodes * _max_turns(config) * basis.turn_tokens, prompt + completion)),
        basis=basis,
    )


def assumed(config: EvalConfig) -> Basis:
    """What is assumed of a workflow that nobody has measured."""
    turns = min(AGENT_TURNS, config.agent.max_turns) if config.agent.workflow == "agent" else 1.0
    tools = turns - 1 if config.agent.workflow == "agent" else 2.0 if config.agent.workflow == "rag" else 0.0
    seconds = turns * TURN_S + tools * TOOL_S
    written = min(TURN_TOKENS, config.agent.max_tokens_turn)
    return Basis(source="assumed", turns=turns, turn_tokens=written, seconds=seconds, judged_share=JUDGED_SHARE)


def measured(run: Path) -> Basis:
    """The means of an earlier run, over all its suites."""
    summary: Summary = summarise(run)
    suites = [suite for suite in summary.suites.values() if suite.behaviour.episodes]
    count = sum(suite.behaviour.episodes for suite in suites)
    if not count:
        return assumed(EvalConfig(target="", model=summary.model))

    def mean(of: Callable[[SuiteSummary], float | None]) -> float:
        return sum((of(suite) or 0) * suite.behaviour.episodes for suite in suites) / count

    turns = mean(lambda suite: suite.behaviour.turns)
    written = mean(lambda suite: suite.behaviour.completion_tokens)
    asked = max((judge.asked + judge.cached for judge in summary.judging.judges.values()), default=0)
    return Basis(
        source=str(run),
        turns=turns,
        turn_tokens=written / turns if turns else 0.0,
        seconds=mean(lambda suite: suite.timing.p50_s),
        judged_share=asked / count if summary.judging.judges else JUDGED_SHARE,
        prompt_tokens=mean(lambda suite: suite.behaviour.prompt_tokens) or None,
    )


def _max_turns(config: EvalConfig) -> int:
    return config.agent.max_turns if config.agent.workflow == "agent" else 1


def _prompt_tokens(config: EvalConfig, sample: Sample, views: Sequence[tuple[int, int]], turns: float) -> float:
    """The prompt is sent again with each turn, and grows by what was written and seen up to the limit of an episode."""
    cell = config.agent.pixels.factor**2
    first = SYSTEM_TOKENS[config.agent.workflow] + len(sample.question) / CHARS_PER_TOKEN
    first += sum(width * height / cell for width, height in views)
    whole = turns * first + turns * (turns - 1) / 2 * (TURN_TOKENS + SEEN_TOKENS)
    return min(whole, turns * config.agent.max_tokens_total)


def _judge_calls(config: EvalConfig, samples: Sequence[Sample], basis: Basis) -> float:
    judges = sum(name != MATCHER for name in config.judges)
    open_ended = sum(config.rollouts_of(sample.source) for sample in samples if not sample.choices)
    return judges * basis.judged_share * open_ended


def _cost(config: EvalConfig, prompt: float, completion: float, judge_calls: float) -> float | None:
    prices = config.prices
    if not any(prices.model_dump().values()):
        return None
    judged = judge_calls * (JUDGE_TOKENS[0] * prices.judge_prompt + JUDGE_TOKENS[1] * prices.judge_completion)
    return float((prompt * prices.prompt + completion * prices.completion + judged) / 1e6)


def describe(found: Estimate) -> str:
    """One line for a person."""
    minutes = found.seconds / 60
    time = f"{minutes:.0f} min" if minutes >= 2 else f"{found.seconds:.0f} s"
    cost = "no price set (--price)" if found.cost_usd is None else f"about ${found.cost_usd:,.2f}"
    judged = f", {found.judge_calls:,} judge calls" if found.judge_calls else ""
    return (
        f"estimate: {found.questions:,} questions, {found.episodes:,} episodes, about {found.prompt_tokens:,} + "
        f"{found.completion_tokens:,} tokens (at most {found.most_tokens:,}){judged}, {cost}, about {time} "
        f"({found.basis.source}: {found.basis.turns:.1f} turns of {found.basis.turn_tokens:.0f} tokens, "
        f"{found.basis.seconds:.1f} s an episode)"
    )
