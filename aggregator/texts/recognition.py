"""Match stored English sentences against the templates of DLProf's detectors, to translate them.

A database written by open-dlprof stores the template of each message; one written by NVIDIA's
DLProf has only the English text.
"""

from __future__ import annotations

import re
import string
from functools import cache

from aggregator.texts import LANGUAGES, Text, catalog

_DETECTORS = "aggregator/advice/dlprof"


def recognized(text: str) -> str:
    """Return a sentence of one of DLProf's detectors as a ``Text``; any other text unchanged."""
    for template, pattern in _patterns():
        match = pattern.fullmatch(text)
        if match is None:
            continue
        found = _rebuilt(template, match.groupdict())
        if found == text:
            return found
    return text


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (template, _pattern(template))
        for template, translation in catalog(LANGUAGES[-1]).items()
        if _DETECTORS in translation.files
    )


def _pattern(template: str) -> re.Pattern[str]:
    parts: list[str] = []
    seen: set[str] = set()
    for literal, name, _, _ in string.Formatter().parse(template):
        parts.append(re.escape(literal))
        if name is not None:
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>.*?)")
            seen.add(name)
    return re.compile("".join(parts), re.DOTALL)


def _rebuilt(template: str, words: dict[str, str]) -> str:
    specs = {name: spec for _, name, spec, _ in string.Formatter().parse(template) if name}
    try:
        values = {
            name: float(word) if (specs[name] or "").endswith("f") else word
            for name, word in words.items()
        }
        return Text(template, values)
    except ValueError:
        return ""
