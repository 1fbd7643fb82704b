"""Ranges of phases: by the program, in ``generate()`` and in the Trainer."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dlprof_nvtx
from dlprof_nvtx import phases
from dlprof_nvtx.state import STATE
from tests.nvtx.conftest import Recorder


def test_a_program_names_its_phases(calls: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with dlprof_nvtx.phase("decode", tokens=32):
        calls.seen.append("work")
    monkeypatch.setattr(STATE, "on", False)
    with dlprof_nvtx.phase("prefill"):
        pass
    monkeypatch.setattr(STATE, "is_light", True)
    with dlprof_nvtx.phase("prefill", tokens=8, sequences=2):
        pass
    assert calls.seen == [
        *('dlprof.phase: decode {"tokens":32}', "work", "pop"),
        *('dlprof.phase: prefill {"tokens":8,"sequences":2}', "pop"),
    ]


def generation() -> Any:
    """A loop as that of ``generate()``."""

    class GenerationMixin:
        def __init__(self, steps: int) -> None:
            self.left = steps
            self.fails = False

        def _has_unfinished_sequences(self, done: bool) -> bool:
            return not done

        def _assisted_decoding(self, input_ids: Any, seen: list[str]) -> str:
            return self._sample(input_ids, seen)  # Of the model that proposes tokens.

        def _sample(self, input_ids: Any, seen: list[str], **cache: Any) -> str:
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


def test_generation_has_a_prefill_and_a_decode_for_each_later_token(calls: Recorder) -> None:
    ids = SimpleNamespace(shape=(4, 10))
    assert generation()(3)._sample(ids, calls.seen) == "tokens"
    decode = ['dlprof.phase: decode {"tokens":4,"sequences":4}', "model", "pop"]
    assert calls.seen == [
        *('dlprof.phase: prefill {"tokens":40,"sequences":4}', "model", "pop"),
        *(*decode, *decode, "rest"),
    ]


class DynamicCache:
    def get_seq_length(self) -> int:
        return 7


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_a_prefill_computes_what_the_cache_of_earlier_turns_does_not_hold(
    name: str, calls: Recorder
) -> None:
    generation()(1)._sample(SimpleNamespace(shape=(4, 10)), calls.seen, **{name: DynamicCache()})
    assert calls.seen[0] == 'dlprof.phase: prefill {"tokens":12,"sequences":4}'


def test_a_prefill_of_embeddings_has_an_unknown_number_of_tokens(calls: Recorder) -> None:
    generation()(1)._sample(SimpleNamespace(shape=(4, 0)), calls.seen)
    assert calls.seen[0] == 'dlprof.phase: prefill {"sequences":4}'


def test_tokens_that_another_model_proposes_are_no_phases(calls: Recorder) -> None:
    model = generation()(2)
    model._assisted_decoding(SimpleNamespace(shape=(4, 10)), calls.seen)
    assert calls.seen == ["model", "model", "rest"]
    model.left = 1
    model._sample(SimpleNamespace(shape=(4, 10)), calls.seen)
    assert "dlprof.phase" in calls.seen[3]


def test_a_generation_that_fails_ends_its_phase(calls: Recorder) -> None:
    model = generation()(3)
    model.fails = True
    with pytest.raises(RuntimeError):
        model._sample(SimpleNamespace(shape=(4, 10)), calls.seen)
    assert calls.seen[-1] == "pop"
    assert phases._ACTIVE.active == []


def test_other_versions_of_the_library_are_left_alone() -> None:
    module: Any = ModuleType("transformers.generation.utils")
    phases.mark_generation(module)
    module.GenerationMixin = type("GenerationMixin", (), {})
    phases.mark_generation(module)
    phases.mark_trainer(module)


def test_micro_steps_and_evaluation_of_the_trainer(calls: Recorder) -> None:
    class Trainer:
        def training_step(self, model: Any, inputs: Any, items: int = 0) -> str:
            calls.seen.append("train it")
            return "loss"

        def prediction_step(self, model: Any, inputs: Any) -> None:
            calls.seen.append("test it")

    module: Any = ModuleType("transformers.trainer")
    module.Trainer = Trainer
    phases.mark_trainer(module)
    text = {"input_ids": SimpleNamespace(shape=(2, 8))}
    assert Trainer().training_step(None, text, 3) == "loss"
    Trainer().prediction_step(None, inputs={"pixels": 1})
    assert calls.seen == [
        *('dlprof.phase: train {"tokens":16,"sequences":2}', "train it", "pop"),
        *("dlprof.phase: eval", "test it", "pop"),
    ]
