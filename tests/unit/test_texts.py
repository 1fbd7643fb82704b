"""Sentences in two languages: English where there is no other, none made without its template."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import re
import string
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from aggregator import errors as engine_errors
from aggregator import texts
from aggregator.advice.dlprof import DETECTORS
from aggregator.texts import Text, catalog, from_json, localized, say, to_json, translate
from aggregator.texts.recognition import recognized
from scripts.update_texts import read_catalog, untranslated
from tests.builders import table
from viewer import errors as viewer_errors

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("aggregator", "viewer")
#: Speaks to programmers, in notebooks and scripts.
EXEMPT = {REPOSITORY / "dlprof_client/client.py"}


def _sources() -> Iterator[tuple[Path, ast.Module]]:
    """Modules in which one of the checked calls is written."""
    names = "|".join(["say", "Issue", "ProfileWarning", *_error_classes()])
    checked = re.compile(rf"\b(?:{names})\(")
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if path not in EXEMPT and "texts" not in path.parts and checked.search(source):
                yield path, ast.parse(source)


@cache
def _calls() -> list[tuple[Path, ast.Call, str]]:
    return [
        (path, node, node.func.id)
        for path, module in _sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def _place(path: Path, node: ast.expr) -> str:
    return f"{path.relative_to(REPOSITORY)}:{node.lineno}"


def _holes(template: str) -> list[tuple[str, str, str]]:
    parts = string.Formatter().parse(template)
    return sorted((name, spec or "", how or "") for _, name, spec, how in parts if name is not None)


def test_the_catalog_reads_as_babel_reads_it() -> None:
    expected = {
        message.id: "" if message.fuzzy else message.string
        for message in read_catalog()
        if message.id and message.context is None
    }
    assert {english: entry.text for english, entry in catalog("zh").items()} == expected


def test_translations_cover_the_engine_and_the_page() -> None:
    kept = {(message.id, message.context) for message in read_catalog() if message.id}
    assert ("Ops", "page") in kept
    assert len([context for _, context in kept if context == "page"]) > 1000
    assert len([context for _, context in kept if context is None]) > 500


CATALOG = """msgid ""
msgstr ""

#: aggregator/a.py
msgid "It is new."
msgstr ""

#: aggregator/a.py
#, fuzzy, python-brace-format
#| msgid "It was {what}."
msgid "It is {what}."
msgstr "曾是{what}"

#: aggregator/b.py
msgid "Kernels"
msgstr "核函数"

#: frontend/src/a.tsx
msgctxt "page"
msgid "Ops"
msgstr "算子"
"""


def test_a_missing_translation_falls_back_to_english(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zh.po").write_text(CATALOG, encoding="utf-8")
    monkeypatch.setattr(texts, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(texts, "catalog", catalog.__wrapped__)

    read = [say("It is new."), say("It is {what}.", what=3), say("Not in it."), say("Kernels")]

    assert [translate(text, "zh") for text in read] == [*map(str, read[:3]), "核函数"]
    assert set(texts.catalog("zh")) == {"It is new.", "It is {what}.", "Kernels"}


def test_sentences_without_translation_are_listed() -> None:
    lines = untranslated(read_po(BytesIO(CATALOG.encode()), locale="zh"))

    assert lines == ["no translation: It is new.", "fuzzy: It is {what}."]


def test_a_template_is_a_literal() -> None:
    wrong = [
        _place(path, call)
        for path, call, name in _calls()
        if name == "say" and not (call.args and isinstance(call.args[0], ast.Constant))
    ]
    assert wrong == []


def test_a_translation_has_the_holes_of_its_template() -> None:
    translated = [(english, text) for english, (text, _) in catalog("zh").items() if text]
    assert len(translated) > 500
    for english, chinese in translated:
        assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese) or not any(
            word.isalpha() and len(word) > 3 for word in english.replace("{", " {").split()
        ), english
        if "{" in english:
            # Chinese may leave a number's format to the template's own.
            assert [hole[0] for hole in _holes(english)] == [h[0] for h in _holes(chinese)], english


def _error_classes() -> set[str]:
    modules = (engine_errors, viewer_errors)
    found = {name: value for module in modules for name, value in vars(module).items()}
    base = engine_errors.DlprofError
    return {
        name for name, value in found.items() if isinstance(value, type) and issubclass(value, base)
    }


def _is_plain(node: ast.expr) -> bool:
    """Whether words are written down here without ``say``."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(node.value)
    if isinstance(node, ast.IfExp):
        return _is_plain(node.body) or _is_plain(node.orelse)
    return isinstance(node, ast.JoinedStr | ast.BinOp)


def test_marks_beside_chinese_are_of_full_width() -> None:
    half = re.compile(r"[\u3400-\u9fff][,;:!?()]|[,;:(] ?[\u3400-\u9fff]")
    catalog = read_catalog()
    texts = [str(message.string) for message in catalog if message.id]
    assert len(texts) > 1_000
    assert [text for text in texts if half.search(text)] == []


def test_errors_are_said_not_just_written() -> None:
    names = _error_classes()
    wrong = [
        _place(path, call)
        for path, call, name in _calls()
        if name in names
        for node in [*call.args[:1], *(word.value for word in call.keywords if word.arg == "hint")]
        if _is_plain(node)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["Issue", "ProfileWarning"])
def test_advice_and_notes_are_said_not_just_written(name: str) -> None:
    said = {"Issue": {"problem", "recommendation"}, "ProfileWarning": {"message"}}[name]
    place = {"Issue": (1, 2), "ProfileWarning": (1,)}[name]
    wrong = [
        _place(path, call)
        for path, call, called in _calls()
        if called == name
        for node in [
            *(call.args[index] for index in place if index < len(call.args)),
            *(word.value for word in call.keywords if word.arg in said),
        ]
        if _is_plain(node)
    ]
    assert wrong == []
    assert DETECTORS


def test_a_sentence_is_its_english_words() -> None:
    text = say("The profile has no NVTX domain '{name}'.", name="a{b}")
    assert text == "The profile has no NVTX domain 'a{b}'."
    assert json.loads(json.dumps({"message": text})) == {"message": str(text)}
    assert translate(text, "zh") != text
    assert "a{b}" in translate(text, "zh")
    assert translate(text, "en") == text
    assert translate("plain", "zh") == "plain"


def test_a_sentence_within_a_sentence_is_translated_too() -> None:
    listed = say("It has no custom domains.")
    text = say("Did you mean {name}? {listed}", name="Loop", listed=listed)
    chinese = translate(text, "zh")
    assert translate(listed, "zh") in chinese
    assert str(listed) not in chinese
    assert localized({"a": [text, 1, None]}, "zh") == {"a": [chinese, 1, None]}


@pytest.mark.parametrize(
    "again",
    [
        lambda text: from_json(to_json(text), str(text)),
        lambda text: pickle.loads(pickle.dumps(text)),
        copy.deepcopy,
    ],
    ids=["stored", "pickled", "copied"],
)
def test_a_sentence_survives_being_stored(again: object) -> None:
    listed = say("There are: {names}.", names="Loop, Forward")
    text = say("Did you mean {name}? {listed}", name="Loop", listed=listed)
    assert callable(again)
    found = again(text)
    assert isinstance(found, Text)
    assert found == text
    assert translate(found, "zh") == translate(text, "zh")


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "[]",
        "nothing",
        '{"template": "{a.__class__}", "values": {"a": 1}}',
        '{"template": "It has no custom domains.", "values": {}}',
        '{"template": "There are: {names}.", "values": {}}',
        '{"template": "There are: {names}.", "values": 3}',
        '{"template": 3}',
    ],
)
def test_translations_in_a_file_are_not_trusted(raw: str) -> None:
    found = from_json(raw, "There are: x.")
    assert found == "There are: x."
    assert not isinstance(found, Text)


@pytest.mark.parametrize("text", table("dlprof_advice"))
def test_advice_of_nvidias_dlprof_is_recognized_by_its_wording(text: str) -> None:
    found = recognized(text)
    assert isinstance(found, Text)
    assert found == text
    assert translate(found, "zh") != text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Buy a faster machine",
        "many% of the aggregated run was spent in the dataloader",
        "{count}",
    ],
)
def test_other_advice_stays_as_it_is(text: str) -> None:
    found = recognized(text)
    assert found == text
    assert not isinstance(found, Text)
