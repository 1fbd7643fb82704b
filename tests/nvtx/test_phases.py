"""Ranges of phases: by the program, in ``generate()`` and in the Trainer."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dlprof_nvtx
from dlprof_nvtx import phases
from dlprof_nvtx.state import STATE


class Recorder:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def push(self, text: str) -> None:
        self.seen.append(text.replace(phases.PREFIX, ""))

    def pop(self) -> None:
        self.seen.append("end")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setattr(STATE, "backend", found)
    monkeypatch.setattr(STATE, "on", True)
    return found


def test_a_program_names_its_phases(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with dlprof_nvtx.phase("decode", tokens=32):
        recorder.seen.append("work")
    monkeypatch.setattr(STATE, "on", False)
    with dlprof_nvtx.phase("prefill"):
        pass
    monkeypatch.setattr(STATE, "is_light", True)
    with dlprof_nvtx.phase("prefill", tokens=8, sequences=2):
        pass
    assert recorder.seen == [
        *('decode {"tokens":32}', "work", "end"),
        *('prefill {"tokens":8,"sequences":2}', "end"),
    ]


def generation() -> Any:
    """A loop as that of ``generate()``."""

    class GenerationMixin:
        def __init__(self, steps: int) -> None:
            self.left = steps
            self.fails = False

        def _has_unfinished_sequences(self, done: bool) -> bool:
            return not done

        def _sample(self, input_ids: Any, seen: list[str]) -> str:
            while self._has_unfinished_sequences(self.left == 0):
                seen.append("model")
                if self.fails:
                    raise RuntimeError
                self.left -= 1
            seen.append("rest")
            return "tokens"

    module: Any = ModuleType("transformers.generation.utils")
    module.GenerationMixin = GenerationMixin
    phases.mark_generation(module)
    return GenerationMixin


def test_generation_has_a_prefill_and_a_decode_for_each_later_token(recorder: Recorder) -> None:
    ids = SimpleNamespace(shape=(4, 10))
    assert generation()(3)._sample(ids, recorder.seen) == "tokens"
    decode = ['decode {"tokens":4,"sequences":4}', "model", "end"]
    assert recorder.seen == [
        *('prefill {"tokens":40,"sequences":4}', "model", "end"),
        *(*decode, *decode, "rest"),
    ]


def test_a_generation_that_fails_ends_its_phase(recorder: Recorder) -> None:
    model = generation()(3)
    model.fails = True
    with pytest.raises(RuntimeError):
        model._sample(SimpleNamespace(shape=(4, 10)), recorder.seen)
    assert recorder.seen[-1] == "end"
    assert phases._ACTIVE.active == []


def test_other_versions_of_the_library_are_left_alone() -> None:
    module: Any = ModuleType("transformers.generation.utils")
    phases.mark_generation(module)
    module.GenerationMixin = type("GenerationMixin", (), {})
    phases.mark_generation(module)
    phases.mark_trainer(module)


def test_micro_steps_and_evaluation_of_the_trainer(recorder: Recorder) -> None:
    class Trainer:
        def training_step(self, model: Any, inputs: Any, items: int = 0) -> str:
            recorder.seen.append("train it")
            return "loss"

        def prediction_step(self, model: Any, inputs: Any) -> None:
            recorder.seen.append("test it")

    module: Any = ModuleType("transformers.trainer")
    module.Trainer = Trainer
    phases.mark_trainer(module)
    text = {"input_ids": SimpleNamespace(shape=(2, 8))}
    assert Trainer().training_step(None, text, 3) == "loss"
    Trainer().prediction_step(None, inputs={"pixels": 1})
    assert recorder.seen == [
        *('train {"tokens":16,"sequences":2}', "train it", "end"),
        *("eval", "test it", "end"),
    ]
