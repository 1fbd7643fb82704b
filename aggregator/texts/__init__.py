"""Sentences for people, which know what they were made of and so can be said in another language.

``say("{count} ops ran", count=3)`` is a plain ``str`` with the English words, to be printed, stored
and compared as any other. It also remembers its template and values; ``translate`` says the same
in another language of ``LANGUAGES``. A database keeps template and values of the sentences in it
beside them (``view_texts``), and a job those of its error.

Adding a sentence: give ``say`` its English template as a literal, and add the template with its
translation to a catalogue of ``zh``. A template that is missing there fails a test.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from aggregator.texts.zh import CATALOGUE

Value: TypeAlias = "str | int | float"

ENGLISH = "en"
LANGUAGES = (ENGLISH, "zh")


class Text(str):
    """A sentence in English that remembers its template and values.

    Attributes:
        template: The sentence with {holes}, as ``str.format`` reads it.
        values: What fills the holes; a value may be a ``Text`` itself.
    """

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, Value]

    def __new__(cls, template: str, values: Mapping[str, object]) -> Text:
        """Fill the template; what is neither text nor number counts as what it prints as."""
        kept = {name: _value(value) for name, value in values.items()}
        text = super().__new__(cls, template.format(**kept) if kept else template)
        text.template = template
        text.values = kept
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles keep what the sentence was made of."""
        return (Text, (self.template, dict(self.values)))


def say(template: str, /, **values: object) -> Text:
    """A sentence: an English template as a literal, and the values of its {holes}.

    A template without values is taken as it is: its braces need no doubling.
    """
    return Text(template, values)


def translate(text: str, language: str) -> str:
    """The sentence in a language; in English where there is no translation.

    Plain strings, such as names in a profile, come back as they are.
    """
    if language == ENGLISH or not isinstance(text, Text):
        return text
    template = _catalogue(language).get(text.template)
    if template is None:
        return text
    values = {
        name: translate(value, language) if isinstance(value, str) else value
        for name, value in text.values.items()
    }
    return _filled(template, values) or text


def localized(value: Any, language: str) -> Any:
    """A reply, a figure or any other plain data with every sentence in it translated."""
    if language == ENGLISH:
        return value
    if isinstance(value, str):
        return translate(value, language)
    if isinstance(value, Mapping):
        return {key: localized(item, language) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [localized(item, language) for item in value]
    return value


def to_json(text: Text) -> str:
    """Template and values as JSON, to be stored."""
    return json.dumps(_plain(text), ensure_ascii=False, sort_keys=True)


def from_json(raw: str, text: str) -> str:
    """A stored sentence again as a ``Text``, or ``text`` as it is if that cannot be.

    The stored words count: whatever else the JSON would make is not used.
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
        "values": {name: _plain(one) for name, one in value.values.items()},
    }


def _restored(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    template = str(raw["template"])
    # A template of a file is only filled when it is one of ours.
    if template not in _catalogue(LANGUAGES[-1]):
        raise KeyError(template)
    return Text(template, {name: _restored(one) for name, one in raw["values"].items()})


def _filled(template: str, values: Mapping[str, Value]) -> str:
    try:
        return template.format(**values) if values else template
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return ""


def _catalogue(language: str) -> Mapping[str, str]:
    return CATALOGUE if language == "zh" else {}
