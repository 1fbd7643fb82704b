"""Stale pictures of the documents are found."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from scripts import take_screenshots


def _picture(mark: int = 0) -> bytes:
    picture = Image.new("RGB", (200, 100), "white")
    ImageDraw.Draw(picture).rectangle((0, 0, mark, 20), fill="black")
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def test_pictures_that_changed_visibly_or_are_new_are_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_screenshots, "PICTURES", tmp_path)
    for name, mark in (("same", 0), ("one_pixel", 1), ("moved", 90), ("new", 0)):
        (tmp_path / f"{name}.png").write_bytes(_picture(mark))
    before = {f"{name}.png": _picture() for name in ("same", "one_pixel", "moved")}
    assert take_screenshots.stale_pictures(before) == ["moved.png", "new.png"]
