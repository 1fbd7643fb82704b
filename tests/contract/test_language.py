"""Replies in Chinese: all sentences are translated, everything else is the same."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.tables.figures import FIGURES
from tests.contract.client import ApiClient, Served
from viewer.api.language import preferred_language

CHINESE = re.compile("[\u4e00-\u9fff]")
#: What is called the same in Chinese: abbreviations and data types.
SAME = re.compile(r"CPU|I/O|[a-z]+\d+\w*")
#: Objects and lists whose sentences are all ours, and the fields that hold them.
SENTENCES = {
    "recommendations/": ("problem", "recommendation"),
    "advice/": ("problem", "recommendation", "reasoning", "needs"),
    "performance-summary/": ("key_node_reason",),
}


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("zh", "zh"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("de-DE,de;q=0.9", "en"),
        ("en;q=0.5, zh-TW;q=0.7", "zh"),
        ("zh;q=0, en", "en"),
        ("zh;q=nonsense", "en"),
        (";;,=," * 200, "en"),
    ],
)
def test_a_header_names_a_language(header: str, language: str) -> None:
    assert preferred_language(header) == language


def _said(value: Any, names: tuple[str, ...]) -> list[str]:
    if isinstance(value, dict):
        here = [text for name in names if isinstance(text := value.get(name), str) and text]
        return here + [text for item in value.values() for text in _said(item, names)]
    if isinstance(value, list):
        return [text for item in value for text in _said(item, names)]
    return []


@pytest.mark.parametrize("address", SENTENCES)
def test_stored_sentences_are_chinese(ours: Served, address: str) -> None:
    english = ApiClient().get(ours.at(address)).json
    chinese = ApiClient(**{"Accept-Language": "zh"}).get(ours.at(address)).json
    said = _said(chinese, SENTENCES[address])
    assert said
    assert [text for text in said if not CHINESE.search(text)] == []
    assert not any(CHINESE.search(text) for text in _said(english, SENTENCES[address]))


def test_a_profile_is_described_in_chinese(ours: Served) -> None:
    reply = ApiClient(**{"Accept-Language": "zh"}).get(ours.profile)
    assert "Accept-Language" in reply.headers["Vary"]
    info = reply.json["info"]
    assert CHINESE.search(info["mode_reason"])
    assert CHINESE.search(info["key_node_reason"])
    assert info["mode"] == "pytorch"
    listed = ApiClient(**{"Accept-Language": "zh"}).get(f"{ours.profile}aggregations/")
    assert CHINESE.search(listed.json["results"][0]["key_node_reason"])


@pytest.mark.parametrize("address", ["resource-usage/", "iterations/", "ops/"])
def test_reasons_of_unknown_values_are_chinese(served: Served, address: str) -> None:
    reply = ApiClient(**{"Accept-Language": "zh"}).get(served.at(address)).json
    reasons = set(reply["unknown"].values())
    assert [text for text in reasons if not CHINESE.search(text)] == []


@pytest.mark.parametrize("name", FIGURES)
def test_figures_name_their_parts_in_chinese(ours: Served, name: str) -> None:
    english = ApiClient().get(ours.at(f"figures/{name}/")).json
    chinese = ApiClient(**{"Accept-Language": "zh"}).get(ours.at(f"figures/{name}/")).json
    for before, after in zip(english["data"], chinese["data"], strict=True):
        names = [(before.get("name"), after.get("name"))]
        names += zip(before.get("labels", []), after.get("labels", []), strict=True)
        for old, new in names:
            assert old is None or SAME.fullmatch(old) or CHINESE.search(new), (old, new)
        assert before.get("y") == after.get("y")
        assert before.get("values") == after.get("values")


@pytest.mark.parametrize(
    "address", ["ops/?ordering=nonsense", "ops/?nonsense=1", "ops/?page=0", "ops/NO_OP/", "nowhere"]
)
def test_errors_are_chinese(ours: Served, address: str) -> None:
    error = ApiClient(**{"Accept-Language": "zh"}).get(ours.at(address)).json["error"]
    assert CHINESE.search(error["message"])
    assert not error["hint"] or CHINESE.search(error["hint"])
    assert error["code"].isascii()


def test_refusals_before_the_views_are_chinese(ours: Served, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, token="secret", bind="0.0.0.0")
    error = ApiClient(**{"Accept-Language": "zh"}).get(ours.profile).json["error"]
    assert error["code"] == "TOKEN_MISSING"
    assert CHINESE.search(error["message"])
