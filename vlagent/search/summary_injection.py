"""Text of a page that is addressed to the reader's machine: "ignore all previous instructions".

A page's text is data. Sentences that give orders to a model are left out of what a model reads, and the result says so.
This catches the known wordings; it is a filter in front of the delimiters and the tool protocol, not instead of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vlagent.search.sentences import Span, sentence_spans

_MACHINE = r"(?:ai|a\.i\.|llms?|language models?|chat ?bots?|gpt|(?:ai |virtual |automated )?(?:assistants?|agents?))"
_CLEARLY = (
    r"(?:ai|a\.i\.|llms?|language models?|chat ?bots?|gpt|"
    r"(?:ai|virtual|automated|any|all|every)\s+(?:assistants?|agents?))"
)
"""Without the people and offices that are called so as well."""
_NAMED = ("ai ", "ai:", "ais ", "a.i.", "llm", "language model", "chatbot", "chat bot", "gpt", "assistant", "agent")
_ORDERS = r"(?:instructions?|prompts?|rules|directions|guidelines|commands|directives|tasks?|messages?|questions?)"
_EARLIER = r"(?:previous|prior|above|earlier|preceding|former|your|existing|original|system|all)"
_TELL = (
    r"(?:answer|say|respond|reply|output|ignore|report|state|recommend|click|visit|follow|include|write|tell|conclude)"
)
_RULES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("ignor", "disregard", "forget", "overrid", "bypass", "drop "),
        rf"\b(?:ignore|disregard|forget|override|bypass|drop)\b[^.!?\n]{{0,30}}?\b{_EARLIER}\b[^.!?\n]{{0,25}}?\b{_ORDERS}\b",
    ),
    (
        ("instruction",),
        r"\b(?:new|updated|real|actual|important|hidden|special)\s+(?:system\s+)?instructions?\s*"
        r"(?::|for\s+(?:you|the\s+(?:ai|model|assistant)))",
    ),
    (
        ("prompt",),
        r"\b(?:reveal|print|repeat|show|output|leak|send)\b[^.!?\n]{0,25}\b(?:your|the)\s+(?:system|hidden|initial)\s+prompt",
    ),
    (
        ("do not ", "don't "),
        r"\b(?:do\s+not|don't)\s+(?:mention|reveal|disclose|tell)\b[^.!?\n]{0,40}"
        r"\b(?:the\s+user|these\s+instructions|this\s+(?:prompt|message|instruction))",
    ),
    (
        ("if you", "when you", "as you", "as an ai", "as a l", "as a ch", "as an assis", "as an ag"),
        rf"\b(?:if|when|as)\s+(?:you\s+are\s+|you're\s+|you\s+)?(?:an?\s+|the\s+){_MACHINE}\b(?:\s+model)?,?\s*"
        rf"(?:[^.!?\n]{{0,30}}\b(?:you|must|please|should|{_TELL})\b)",
    ),
    (
        _NAMED,
        r"\b(?:dear|attention|attn|note\s+to|notice\s+to|message\s+to|to)\s*:?\s+(?:the\s+|all\s+|any\s+|every\s+)?"
        rf"{_CLEARLY}\s*[:,]",
    ),
    (_NAMED, rf"\b(?:dear|attention|attn)\s*:?\s+(?:the\s+|all\s+|any\s+)?{_CLEARLY}\b"),
    (_NAMED, rf"\b{_MACHINE}\s+(?:reading|processing|summari[sz]ing|parsing|viewing|visiting|crawling)\s+this\b"),
    (
        _NAMED,
        rf"\b{_CLEARLY}\s+(?:must|should|shall|have\s+to|are\s+required\s+to|is\s+required\s+to)\s+"
        rf"(?:now\s+|only\s+|always\s+|instead\s+)?{_TELL}\b",
    ),
    (("you are now",), r"\byou\s+are\s+now\s+(?:an?|the|in|no\s+longer|free|dan|called)\b"),
    (
        ("answer ", "respond ", "reply "),
        r"\b(?:answer|respond|reply)\s+(?:only|exactly|solely|just)?\s*with\s+(?:the\s+(?:word|answer|text|phrase)|only|exactly|[\"'“‘])",
    ),
    (
        ("your ", "the final answer"),
        r"\b(?:your\s+(?:final\s+)?|the\s+final\s+)(?:answer|response|reply|output|summary)\s+(?:must|should|has\s+to|shall)\s+"
        r"(?:be|say|state|start|contain|include|only)\b",
    ),
    (
        ("act as", "behave as", "pretend"),
        r"\b(?:act|behave|pretend)\s+as\s+(?:if\s+you|an?\s+(?:ai|unrestricted|different))",
    ),
    (("mode ",), r"\b(?:developer|debug|jailbreak|god)\s+mode\s+(?:enabled|on|activated)"),
    (("ignorier",), r"ignorier(?:e|en\s+sie)\b[^.!?\n]{0,30}(?:anweisungen|vorgaben|befehle|prompts?)"),
    (
        ("consignes", "instructions"),
        r"(?:ignore[zr]?|oublie[zr]?)\b[^.!?\n]{0,30}(?:instructions|consignes)\s+(?:pr[ée]c[ée]dentes|ci-dessus)",
    ),
    (
        ("instruc", "instru", "istruzioni"),
        r"(?:ignora|ignore|olvida|esque[çc]a)\b[^.!?\n]{0,30}(?:instrucciones|instru[çc][õo]es|istruzioni)\s+"
        r"(?:anteriores|previas|precedenti)",
    ),
    (("игнорируй", "забудь"), r"(?:игнорируй(?:те)?|забудь(?:те)?)[^.!?\n]{0,20}(?:предыдущ|прежн|инструкц|указан)"),
    (
        ("忽略", "无视", "無視", "忘记", "忘記"),
        r"(?:忽略|无视|無視|忘记|忘記)[^。\n]{0,10}(?:指令|指示|提示|说明|說明|規則|规则)",
    ),
    (("を無視", "て無視", "を忘れ", "て忘れ"), r"(?:指示|命令|プロンプト|指令)を(?:すべて|全て)?(?:無視|忘れ)"),
    (("무시", "잊"), r"(?:지시|명령|프롬프트)[^.\n]{0,8}(?:무시|잊)"),
    (("<|",), r"<\|[a-z_]{2,20}\|>"),
    (("inst]", "<<"), r"\[/?INST\]|<</?SYS>>"),
    (
        ("tool_", "function_call", "<system", "</system", "<assistant"),
        r"</?(?:tool_\w+|function_call|system|assistant)\b[^>]{0,40}>",
    ),
    (("system", "assistant", "instruction"), r"(?m:^\s*#{2,}\s*(?:system|instruction|assistant)s?\s*:?\s*$)"),
    (("system", "assistant"), r"(?m:^\s*(?:system|assistant)\s*:\s*(?:you|ignore|from\s+now|the\s+answer))"),
)
"""What must stand in a text for a rule to be tried, and the rule. Regular expressions over whole pages are too slow."""
_COMPILED = tuple((literals, re.compile(rule, re.IGNORECASE)) for literals, rule in _RULES)
_BEFORE, _AFTER = 100, 160
"""Letters around such a place that the rule sees."""
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")


def visible(text: str) -> str:
    """Without letters that nobody sees: they break up words that a filter knows, and carry hidden ones."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def has_instructions(text: str) -> bool:
    """Whether any part of a text speaks to a model."""
    return next(_found(visible(text)), None) is not None


def without_instructions(text: str) -> tuple[str, bool]:
    """The text without the sentences that speak to a model, and whether there were any."""
    text = visible(text)
    found = list(_found(text))
    if not found:
        return text, False
    kept, start = [], 0
    for begin, end in sentence_spans(text):
        if any(a < end and begin < b for a, b in found):
            kept.append(text[start:begin])
            start = end
    return "".join([*kept, text[start:]]), True


def _found(text: str) -> Iterator[Span]:
    """Where a text speaks to a model."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters grow; their places would be wrong
        lowered = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    for literals, rule in _COMPILED:
        for literal in literals:
            place = lowered.find(literal)
            while place >= 0:
                match = rule.search(text, max(0, place - _BEFORE), place + _AFTER)
                if match:
                    yield match.span()
                place = lowered.find(literal, max(place + len(literal), match.end() if match else 0))
