"""An ablation in words: every sentence is computed from the numbers, and claims no more than they carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vlagent.bench.ablation import Analysis, Cell, CellSummary, Contrast
from vlagent.bench.published import published
from vlagent.bench.student import PairedT

ONE = 0.999
"""Share of ratios from which on they are called identically 1."""


def cell_name(cell: Cell, analysis: Analysis) -> str:
    """A cell without the coordinates in which nothing differs."""
    cells = [each.cell for each in analysis.cells]
    several = [len({cell[i] for cell in cells}) > 1 for i in range(3)]
    words = [part for part, wanted in zip(cell, several, strict=True) if wanted]
    return ", ".join(words) or cell[0]


def pair_names(contrast: Contrast, analysis: Analysis) -> tuple[str, str, str]:
    """(first, second, what both share): `gspo`, `bn_gspo`, ` (hybrid)`."""
    place = ("arm", "mix", "start").index(contrast.by)
    cells = [each.cell for each in analysis.cells]
    several = [len({cell[i] for cell in cells}) > 1 and i != place for i in range(3)]
    shared = ", ".join(part for part, wanted in zip(contrast.first, several, strict=True) if wanted)
    return contrast.first[place], contrast.second[place], f" ({shared})" if shared else ""


def points(value: float, *, sign: bool = True) -> str:
    """A share in points."""
    return f"{100 * value:+.1f}" if sign else f"{100 * value:.1f}"


def interval_words(interval: tuple[float, float] | None, *, sign: bool = True) -> str:
    """`-1.0 to +3.2`, in points."""
    if interval is None:
        return "one seed, no interval"
    return f"{points(interval[0], sign=sign)} to {points(interval[1], sign=sign)}"


def verdicts(analysis: Analysis) -> list[str]:
    """The verdict, a sentence or two each: algorithms, mixes, cold starts, then what the numbers cannot say."""
    said = [contrast_words(contrast, analysis) for contrast in analysis.contrasts]
    return [*said, *same_update_notes(analysis), *paper_words(analysis), *_caveats(analysis)]


def contrast_words(contrast: Contrast, analysis: Analysis) -> str:
    """What one contrast shows."""
    first, second, shared = pair_names(contrast, analysis)
    if contrast.verdict == "identical":
        return f"{second} against {first}{shared}: every run gave the same answers; there is nothing to tell apart."
    found = contrast.seeds
    measured = (
        f"{points(found.mean)} points (95 % over {found.n} {'seed' if found.n == 1 else 'seeds'} "
        f"{interval_words(found.interval)}; over questions {interval_words(contrast.questions)})"
    )
    better = {"first": f"{first} is better.", "second": f"{second} is better."}
    return f"{second} against {first}{shared}: {measured}. {better.get(contrast.verdict) or _seen(contrast)}"


def _seen(contrast: Contrast) -> str:
    found = contrast.seeds
    if contrast.verdict == "unclear":
        p = "" if contrast.holm_p is None else f" (p = {contrast.holm_p:.2g} adjusted for the number of contrasts)"
        return f"Unclear: seeds and questions do not agree that there is a difference{p}."
    if found.detectable is None:
        return "With one seed nothing can be said about another training."
    return (
        f"No difference was found; one beyond {points(found.detectable, sign=False)} points would have been, "
        "with 80 % probability."
    )


def same_update_notes(analysis: Analysis) -> list[str]:
    """Where clip and ratio had nothing to act on, and what batch normalisation multiplied by."""
    notes = []
    idle = [cell for cell in analysis.cells if cell.means.get("ratio/one", 0.0) >= ONE]
    if idle:
        names = "; ".join(cell_name(cell.cell, analysis) for cell in idle)
        notes.append(
            f"In {names} the importance ratio was identically 1 (one optimizer step a rollout batch), so neither clip "
            "nor ratio level could act: at equal aggregation GRPO and GSPO compute the same update there."
        )
    factors = [
        f"{cell_name(cell.cell, analysis)} {cell.means['bn/factor']:.2f} at {cell.means['bn/p']:.2f}"
        for cell in analysis.cells
        if "bn/factor" in cell.means and "bn/p" in cell.means
    ]
    if factors:
        notes.append(
            "Batch normalisation multiplied all advantages of a step by one factor, at the share of groups that "
            f"teach, on average: {', '.join(factors)}."
        )
    return notes


def paper_words(analysis: Analysis) -> list[str]:
    """The paper's order and its mixes beside ours."""
    ablation = published()["ablation"]
    said = []
    arms = _best_of(analysis, ("grpo", "gspo", "bn_gspo"))
    if arms:
        theirs = ", ".join(f"{row['method']} {row['mmsearch']:.1f}" for row in ablation["algorithms"])
        ours = ", ".join(f"{cell.arm} {points(cell.success.mean, sign=False)}" for cell in arms)
        between = _between(analysis, arms)
        clear = sum(contrast.verdict in ("first", "second") for contrast in between)
        said.append(
            f"The paper's table 3 (7B, one run each) has {theirs} on MMSearch, and GSPO below GRPO on V* and HR-Bench. "
            f"Here, in a toy world: {ours}; {clear} of {len(between)} of these differences are resolved."
        )
    alone = [cell for cell in analysis.cells if cell.mix == "perception" and cell.gain_kinds]
    if alone:
        rows = {_mix_name(row): row for row in ablation["data_mix"]}
        theirs = ", ".join(
            f"{title} {rows['before RL'][name]:.2f} to {rows['perception'][name]:.2f}"
            for name, title in (("mmsearch", "MMSearch"), ("hr_mmsearch", "HR-MMSearch"))
        )
        gains = ", ".join(f"{kind} {points(gain.mean)}" for kind, gain in alone[0].gain_kinds.items())
        said.append(
            "The paper's text says that perception-only training drops search scores; its table 4 shows small gains "
            f"({theirs}). Here perception-only training changed: {gains}."
        )
    return said


def _best_of(analysis: Analysis, names: Sequence[str]) -> list[CellSummary]:
    """Cells of these arms that share mix and start, lowest success first; nothing where one is missing."""
    groups: dict[tuple[str, str], list[CellSummary]] = {}
    for cell in analysis.cells:
        if cell.arm in names:
            groups.setdefault((cell.mix, cell.start), []).append(cell)
    whole = [cells for cells in groups.values() if len(cells) == len(names)]
    return sorted(whole[0], key=lambda cell: cell.success.mean) if whole else []


def _between(analysis: Analysis, cells: Sequence[CellSummary]) -> list[Contrast]:
    names = {cell.cell for cell in cells}
    return [contrast for contrast in analysis.contrasts if {contrast.first, contrast.second} <= names]


def _caveats(analysis: Analysis) -> list[str]:
    fewest = min((cell.success.n for cell in analysis.cells), default=0)
    seeds = "seed" if fewest == 1 else "seeds"
    return [
        f"All of this is a {len(analysis.cells)}-cell comparison of a tiny model in a drawn world on "
        f"{analysis.questions} questions, at least {fewest} {seeds} a cell: it says how the code behaves, not how "
        "large models do."
    ]


def markdown(analysis: Analysis) -> str:
    """Tables and verdict, as a file that a repository shows."""
    parts = [
        "# Ablation",
        f"{analysis.runs} runs, {analysis.questions} questions "
        f"({', '.join(f'{count} {kind}' for kind, count in analysis.kinds.items())}). Success in %, mean over seeds "
        "with its 95 % interval (Student's t).",
        _table(cells_head(analysis), [cell_row(cell, analysis) for cell in analysis.cells]),
        "## Contrasts, in points",
        _table(CONTRAST_HEAD, [contrast_row(contrast, analysis) for contrast in analysis.contrasts]),
        "## Verdict",
        "\n".join(f"- {sentence}" for sentence in verdicts(analysis)),
        "## Published beside it",
        *[f"{title}\n\n{_table(head, rows)}" for title, head, rows in published_tables()],
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cells_head(analysis: Analysis) -> list[str]:
    """Heads of the table of cells."""
    more = ["gain", *(f"{kind}" for kind in analysis.kinds), "redundant calls", "bn factor", "ratio 1", "core min"]
    return ["", "seeds", "success", "95 %", *more]


def cell_row(cell: CellSummary, analysis: Analysis) -> list[str]:
    """One cell of the table."""
    return [
        cell_name(cell.cell, analysis),
        str(len(cell.seeds)),
        points(cell.success.mean, sign=False),
        interval_words(cell.success.interval, sign=False),
        _gain(cell.gain),
        *(points(cell.kinds[kind].mean, sign=False) for kind in analysis.kinds),
        f"{cell.redundant.mean:.2f}",
        _number(cell.means.get("bn/factor")),
        _number(cell.means.get("ratio/one")),
        f"{cell.core_s / 60:.1f}",
    ]


def before_row(name: str, cell: CellSummary, analysis: Analysis) -> list[str]:
    """A cold start as a row of the same table."""
    row = cell_row(cell, analysis)
    return [f"before training, {name}", *row[1:-1], ""]


def _gain(gain: PairedT | None) -> str:
    return "" if gain is None else f"{points(gain.mean)} ({interval_words(gain.interval)})"


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.2f}"


CONTRAST_HEAD = (
    *("second against first", "difference", "95 % by seed", "95 % by question", "p by seed", "adjusted"),
    *("seeds won", "questions better/worse", "detectable", "verdict"),
)


def contrast_row(contrast: Contrast, analysis: Analysis) -> list[str]:
    """One contrast of the table."""
    first, second, shared = pair_names(contrast, analysis)
    named = {"second": f"{second} better", "first": f"{first} better", "none": "none found"}
    return [
        f"{second} against {first}{shared}",
        points(contrast.seeds.mean),
        interval_words(contrast.seeds.interval),
        interval_words(contrast.questions),
        _p(contrast.seeds.p_value),
        _p(contrast.holm_p),
        f"{contrast.wins}/{contrast.seeds.n}",
        f"{contrast.better}/{contrast.worse}",
        "" if contrast.seeds.detectable is None else points(contrast.seeds.detectable, sign=False),
        named.get(contrast.verdict, contrast.verdict),
    ]


def _p(value: float | None) -> str:
    return "" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def published_tables() -> list[tuple[str, list[str], list[list[str]]]]:
    """The paper's tables 3 and 4: (title, head, rows)."""
    ablation: dict[str, Any] = published()["ablation"]
    algorithms = [[row["method"], *(f"{row[name]:.2f}" for name in _ALGORITHMS)] for row in ablation["algorithms"]]
    mixes = [[_mix_name(row), *(f"{row[name]:.2f}" for name in _MIXES)] for row in ablation["data_mix"]]
    source = ablation["source"]
    return [
        (f"Algorithms, table 3 ({source})", ["", *_ALGORITHMS], algorithms),
        (f"Data mix, table 4 ({source})", ["", *_MIXES], mixes),
    ]


_ALGORITHMS = ("mmsearch", "vstar", "hrbench_4k")
_MIXES = ("mmsearch", "hr_mmsearch", "vstar")


def _mix_name(row: dict[str, Any]) -> str:
    names = [name for name in ("search", "perception") if row[name]]
    return "hybrid" if len(names) == 2 else names[0] if names else "before RL"
