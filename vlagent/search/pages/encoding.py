"""Bytes of a page to text: byte order mark, UTF-8 where it fits, what server and page say, then detection."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_LABELS = {
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii", "windows-1252"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk", "gb_2312-80", "x-gbk", "chinese"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "korean"), "cp949"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "cp1254"),
    **dict.fromkeys(("big5", "big5-hkscs", "x-x-big5"), "big5hkscs"),
    "tis-620": "cp874",
    "utf8": "utf-8",
    "unicode-1-1-utf-8": "utf-8",
}
"""What pages call an encoding, and the wider one that they mean (WHATWG Encoding)."""
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_NO_ENCODINGS = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"})
"""Python's, that are of no page and may raise at any byte."""
_META = re.compile(rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w:.-]+)", re.IGNORECASE)


def decoded(data: bytes, declared: str | None = None) -> str:
    """The text; bytes that fit nowhere become replacement characters. Never raises."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace")
    if b"\0" not in data[:1024] and (text := _utf8(data)) is not None:
        return text
    for label in _labels(data, declared):
        text = data.decode(label, "replace")
        if text.count("\ufffd") <= len(text) // 200:
            return text
    return _detected(data)


def _utf8(data: bytes) -> str | None:
    """Bytes that happen to be UTF-8 are UTF-8, whatever is declared; the last letter may be cut."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return None


def _labels(data: bytes, declared: str | None) -> Iterator[str]:
    named = _META.search(data[:4096])
    said = [declared, named[1].decode("ascii", "ignore") if named else None, "utf-8"]
    for label in dict.fromkeys(name.strip().lower() for name in said if name):
        try:
            name = codecs.lookup(_LABELS.get(label, label)).name
            b"a".decode(name, "replace")
        except (LookupError, ValueError):
            continue
        if name not in _NO_ENCODINGS:
            yield name


def _detected(data: bytes) -> str:
    from charset_normalizer import from_bytes

    guesses = from_bytes(data[:65536])
    best = guesses.best()
    if best is None:
        return data.decode("utf-8", "replace")
    western = next((guess for guess in guesses if guess.encoding == "cp1252"), None)
    as_good = western and western.chaos <= best.chaos + 0.01 and western.coherence >= best.coherence - 0.2
    return data.decode("cp1252" if as_good else best.encoding, "replace")
