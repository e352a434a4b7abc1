"""Templates that put words into the running text. All others (navigation, citations, notices) show nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Render = Callable[[Any], str]
_MONTHS = "January February March April May June July August September October November December"
MONTHS = tuple(_MONTHS.split())
_SHOW_FIRST = """nowrap nobr small big abbr visible-anchor vanchor resize center em strong quote blockquote cquote flag
flagcountry country sort hs nihongo angbr mono var sc smallcaps linktext wikt-lang"""
_FIRST = frozenset(_SHOW_FIRST.split())
_LAST = frozenset(("lang", "transl", "tlit", "transliteration", "script", "ipa-text"))
_LISTS = frozenset(("ubl", "unbulleted list", "plainlist", "flatlist", "hlist", "plain list"))
_SHOW_DATES = """birth date|birth date and age|death date|death date and age|start date|end date|start date and age
|film date|dob|bda|birth-date|death-date"""
_DATES = frozenset(name.strip() for name in _SHOW_DATES.split("|"))
_SIGNS = {
    "ndash": "–",
    "spaced ndash": " – ",
    "snd": " – ",
    "en dash": "–",
    "spaced en dash": " – ",
    "mdash": "—",
    "nbsp": " ",
    "!": "|",
    "=": "=",
    "·": " · ",
    "dot": " · ",
    "times": "×",
    "degree": "°",
}
_UNSHOWN_KEYS = re.compile(
    r"image|caption|logo|map|alt$|size|width|colou?r|style|icon|signature|coord|ref|footnote|^\d+$"
    r"|website|url|module|embed|nocat|upright|align"
)


def template_text(node: Any, render: Render) -> str:
    """What a template shows, as far as it is known. `render` turns its arguments into text."""
    name = " ".join(str(node.name).replace("_", " ").split()).lower()
    if name.startswith("formatnum:"):
        return name.partition(":")[2]
    if name.startswith(("infobox", "taxobox", "speciesbox")) or name.endswith(" infobox"):
        return _infobox(node, render)
    if name in _SIGNS:
        return _SIGNS[name]
    values = [render(p.value).strip() for p in node.params if not p.showkey]
    if not values:
        return ""
    return _inline(name, values)


def _inline(name: str, values: list[str]) -> str:
    if name in _FIRST or name.startswith(("lang-", "langx-")):
        return values[0]
    if name in _LAST or name == "langx":
        return values[1] if len(values) > 1 else values[0]
    if name in _LISTS:
        return ", ".join(" ".join(value.split()).strip("* ") for value in values if value)
    if name in _DATES:
        return _date(values)
    if name in ("convert", "cvt"):
        return _measure(values)
    if name in ("circa", "c.", "ca.", "circa2"):
        return f"c. {values[0]}"
    if name in ("as of", "asof"):
        return "as of " + _date(values)
    if name in ("val", "frac", "fraction"):
        return "/".join(values) if name != "val" else values[0]
    return ""


def _date(values: list[str]) -> str:
    """1931|5|7 is 7 May 1931; what is no number is shown as it is."""
    year, month, day = ([value for value in values if re.fullmatch(r"\d{1,4}", value)] + ["", "", ""])[:3]
    if not year:
        return values[0]
    name = MONTHS[int(month) - 1] if month and 1 <= int(month) <= 12 else month
    return " ".join(part for part in (day.lstrip("0"), name, year) if part)


def _measure(values: list[str]) -> str:
    """5|km|mi is 5 km; 5|-|7|km is 5-7 km."""
    if len(values) >= 4 and values[1] in ("-", "–", "to", "and", "x", "by", "×", "or"):
        between = values[1] if values[1] in "-–" else f" {values[1]} "
        return f"{values[0]}{between}{values[2]} {values[3]}"
    return " ".join(values[:2])


def _infobox(node: Any, render: Render) -> str:
    """A line a fact: "population: 12345"."""
    lines = []
    for parameter in node.params:
        key = str(parameter.name).strip().replace("_", " ")
        if not parameter.showkey or _UNSHOWN_KEYS.search(key.lower()):
            continue
        value = " ".join(render(parameter.value).replace("*", " ").split())
        if value and len(value) < 400:
            lines.append(f"{key}: {value}")
    return "\n\n" + "\n".join(lines) + "\n\n" if lines else ""
