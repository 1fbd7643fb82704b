"""Translatable messages: English text that remembers the template and values it was made from.

``say("{count} ops ran", count=3)`` returns a ``str`` with the English text, which can be printed,
stored and compared like any other. ``translate`` renders the same message in another language of
``LANGUAGES``. A database stores template and values of its messages next to the text
(``view_texts``), and a job those of its error.

To add a message, pass ``say`` its English template as a literal and run ``make texts``, which adds
it to ``zh.po``; then write the translation there. Without one, users read the message in English.
The catalog also has the sentences of the page, in a context of their own, which nothing here reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

Value: TypeAlias = "str | int | float"

TEMPLATES = "words"  # Where stored data keeps the templates of its messages.
ENGLISH = "en"
LANGUAGES = (ENGLISH, "zh")

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


class Translation(NamedTuple):
    """An entry of a catalog: the translation of a template, and the files that contain it."""

    text: str  # Empty until a translator has seen the template as it is now.
    files: str


@cache
def catalog(language: str) -> Mapping[str, Translation]:
    """Read the translations of a language from its ``.po`` file, by English template."""
    if language == ENGLISH:
        return {}
    raw = Path(__file__).with_name(f"{language}.po").read_text(encoding="utf-8")
    found = {
        _unquoted(template): Translation("" if "fuzzy" in flags else _unquoted(translation), files)
        for files, flags, template, translation in _PO_ENTRY.findall(raw)
    }
    del found[""]  # the header of the file
    return found


_PO_ENTRY = re.compile(
    r'^(?:#: (.*)\n)?(?:#,(.*)\n)?(?:#\|.*\n)*(?<!msgctxt "page"\n)'
    r'msgid ((?:".*"\n)+)msgstr ((?:".*"\n?)+)',
    re.MULTILINE,
)


def _unquoted(lines: str) -> str:
    """Join the quoted lines of a ``.po`` entry; its escapes are the ones of JSON."""
    return "".join(json.loads(line) for line in lines.splitlines())


def current_language() -> str:
    """Return the language of the reply that is being written."""
    return _language.get()


@contextmanager
def use_language(language: str) -> Iterator[None]:
    """Write replies in a language within the block."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


class Text(str):
    """An English message that remembers its template and values."""

    __slots__ = ("template", "values")

    template: str  # The message with {fields}, in the syntax of ``str.format``.
    values: Mapping[str, Value]  # Values of the fields; a value may be a ``Text`` itself.

    def __new__(cls, template: str, values: Mapping[str, object]) -> Text:
        """Fill the template; values that are neither text nor number are converted by ``str``."""
        kept = {name: _value(value) for name, value in values.items()}
        text = super().__new__(cls, template.format(**kept) if kept else template)
        text.template = template
        text.values = kept
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep template and values in copies and pickles."""
        return (Text, (self.template, dict(self.values)))


def say(template: str, /, **values: object) -> Text:
    """Make a message from an English template, a literal, and the values of its {fields}.

    A template without values is used as it is: its braces are not doubled.
    """
    return Text(template, values)


def translate(text: str, language: str) -> str:
    """Render a message in a language, or in English if there is no translation.

    Plain strings, such as names in a profile, are returned unchanged.
    """
    if not isinstance(text, Text) or text.template not in catalog(language):
        return text
    values = {
        name: translate(value, language) if isinstance(value, str) else value
        for name, value in text.values.items()
    }
    return _filled(catalog(language)[text.template].text, values) or text


#: Types without a message in them; most values of a reply are of these.
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def localized(value: Any, language: str) -> Any:
    """Return plain data, such as a reply or a figure, with every message in it translated."""
    if language == ENGLISH or type(value) in _PLAIN:
        return value
    if isinstance(value, str):
        return translate(value, language)
    if isinstance(value, Mapping):
        return {key: localized(item, language) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [localized(item, language) for item in value]
    return value


def to_json(text: Text) -> str:
    """Return template and values as JSON, to be stored."""
    return json.dumps(_plain(text), ensure_ascii=False, sort_keys=True)


def with_templates(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data, such as an error, with the templates of its messages, to be stored."""
    words = {name: to_json(text) for name, text in values.items() if isinstance(text, Text)}
    return {**values, TEMPLATES: words}


def from_templates(values: Mapping[str, Any]) -> dict[str, Any]:
    """Restore data that ``with_templates`` returned."""
    words = values.get(TEMPLATES, {})
    return {
        name: from_json(words[name], value) if name in words else value
        for name, value in values.items()
        if name != TEMPLATES
    }


def from_json(raw: str, text: str) -> str:
    """Restore a stored message as a ``Text``.

    Returns ``text`` unchanged if the JSON is not valid or renders anything other than ``text``.
    """
    try:
        restored = _restored(json.loads(raw))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return text
    return restored if restored == text else text


def _value(value: object) -> Value:
    return value if isinstance(value, str | int | float) else str(value)


def _plain(value: Value) -> Any:
    if not isinstance(value, Text):
        return value
    return {
        "template": value.template,
        "values": {name: _plain(item) for name, item in value.values.items()},
    }


def _restored(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    template = str(raw["template"])
    # Templates from a file are not trusted: only known ones are filled in.
    if template not in catalog(LANGUAGES[-1]):
        raise KeyError(template)
    return Text(template, {name: _restored(item) for name, item in raw["values"].items()})


def _filled(template: str, values: Mapping[str, Value]) -> str:
    try:
        return template.format(**values) if values else template
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return ""
