"""Ranges around the kernels of compiled graphs: what is recorded, and where it is written."""

from __future__ import annotations

import ast
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dlprof_nvtx import compiled, imports
from dlprof_nvtx.state import STATE
from tests.nvtx.conftest import Recorder


class Block:
    pass


class Linear:
    pass


def node(op: str, **meta: Any) -> Any:
    target = SimpleNamespace(overloadpacket=SimpleNamespace(__name__=op))
    return SimpleNamespace(op="call_function", target=target, meta=meta)


FORWARD = {"1": ("L['self'].h.0", Block), "2": ("L['self'].h.0.fc", Linear)}
TRACE = '  File "/a.py", line 3, in forward\n    x\n  File "/b.py", line 9, in forward\n    y\n'


def described(*nodes: Any, is_backward: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(compiled.describe(nodes, is_backward=is_backward))
    return found


def test_a_kernel_has_the_modules_ops_and_lines_of_its_nodes() -> None:
    found = described(
        node("addmm", nn_module_stack=FORWARD, stack_trace=TRACE),
        node("view", nn_module_stack={"1": ("L['self'].other", Block)}),
        node("gelu", nn_module_stack={"1": ("L['self'].h.0", Block)}),
    )
    assert found == {
        "ops": ["addmm", "gelu"],
        "modules": [["h.0 (Block)", "fc (Linear)"], ["h.0 (Block)"]],
        "pass": "fprop",
        "lines": ["/b.py:9"],
    }


def test_a_backward_graph_computes_gradients_or_the_forward_pass_again() -> None:
    gradient = node("mm", fwd_nn_module_stack=FORWARD, partitioner_tag="is_backward")
    again = node("mm", nn_module_stack=FORWARD, partitioner_tag="is_forward")
    assert described(gradient, is_backward=True)["pass"] == "bprop"
    assert described(again, is_backward=True)["pass"] == "recompute"
    assert described(again, gradient, is_backward=True)["pass"] == "bprop"
    assert described(gradient, is_backward=True)["modules"] == [["h.0 (Block)", "fc (Linear)"]]


@pytest.mark.parametrize(
    ("lowering", "inputs", "is_backward"),
    [
        (SimpleNamespace(is_backward=True), ["primals_1"], True),
        (SimpleNamespace(), ["primals_1", "tangents_1"], True),  # Before PyTorch 2.6.
        (SimpleNamespace(), ["primals_1"], False),
        (SimpleNamespace(is_backward=False), ["tangents_1"], False),
    ],
)
def test_a_backward_graph_is_known_by_its_inputs_where_pytorch_does_not_say_it(
    lowering: Any, inputs: list[str], is_backward: bool
) -> None:
    graph = SimpleNamespace(nodes=[SimpleNamespace(op="placeholder", name=one) for one in inputs])
    nodes = [SimpleNamespace(graph=graph)]
    assert compiled._is_backward(lowering, nodes) is is_backward


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("L['self'].h.0.ln", "h.0.ln"),
        ("L['self']._modules['h']._modules['0'].ln", "h.0.ln"),
        ("L['self'].h[0].ln", "h.0.ln"),
        ("L['self']._orig_mod.h.0", "h.0"),
        ('G["model"].h.0', "h.0"),
        ("L['self']", ""),
    ],
)
def test_paths_of_modules_are_those_of_named_modules(path: str, name: str) -> None:
    assert compiled._module_name(path) == name


def test_many_modules_are_cut_and_keep_the_one_that_contains_all() -> None:
    stacks = [{"1": ("L['self'].h", Block), "2": (f"L['self'].h.{n}", Linear)} for n in range(20)]
    found = described(*(node("add", nn_module_stack=stack) for stack in stacks))
    assert (len(found["modules"]), found["more_modules"]) == (8, 12)
    assert found["common"] == ["h (Block)"]


SOURCE = f"""
from __future__ import annotations
kernel_0 = make('kernel_0')
# Original ATen: [aten.add]{compiled.MARK}{{"definition":1}}
triton_poi_fused_add_0 = make('triton_poi_fused_add_0')
def call(args):
    with guard(0):
        buf0 = empty_strided_cuda((1,), (1,))
        # Original ATen: [aten.add]{compiled.MARK}{{"n":1}}
        stream0 = get_raw_stream(0)
        triton_poi_fused_add_0.run(buf0, stream=stream0)
        triton_poi_fused_add_0.run(buf0, stream=stream0)
        # Original ATen: [aten.mm]{compiled.MARK}{{"n":2}}
        buf1 = extern_kernels.mm(buf0)
        # Original ATen: [aten.mm]
        buf2 = extern_kernels.mm(buf0)
        # Original ATen: [aten.mm]{compiled.MARK}{{"n":3}}
    return (buf1, buf2)
"""


def run(source: str, calls: Recorder, *, fails: bool = False) -> None:
    def launch(name: str) -> Any:
        def called(*_: Any, **__: Any) -> str:
            calls.seen.append(name)
            if fails:
                raise RuntimeError
            return name

        return called

    class Guard:
        def __init__(self, _: int) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    names: dict[str, Any] = {
        "make": lambda name: SimpleNamespace(run=launch(name)),
        "guard": Guard,
        "empty_strided_cuda": lambda *_: None,
        "get_raw_stream": lambda _: 7,
        "extern_kernels": SimpleNamespace(mm=launch("mm")),
    }
    exec(compiled._compiled(source, "graph.py", "exec", dont_inherit=True), names)
    names["call"]([])


def test_each_described_call_gets_a_range_and_no_other_does(calls: Recorder) -> None:
    run(SOURCE, calls)
    assert calls.seen == [
        'torch.inductor: triton_poi_fused_add_0 {"n":1}',
        *("triton_poi_fused_add_0", "pop", "triton_poi_fused_add_0"),
        'torch.inductor: extern_kernels.mm {"n":2}',
        *("mm", "pop", "mm"),
    ]


def test_a_kernel_that_fails_closes_its_range(calls: Recorder) -> None:
    with pytest.raises(RuntimeError):
        run(SOURCE, calls, fails=True)
    assert calls.seen[-1] == "pop"


def test_nothing_is_written_while_markers_are_stopped(
    calls: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(STATE, "on", False)
    run(SOURCE, calls)
    assert calls.seen == ["triton_poi_fused_add_0"] * 2 + ["mm"] * 2


def test_other_sources_are_compiled_as_they_are() -> None:
    assert compiled._compiled("x = 1", "a.py", "exec").co_names == ("x",)
    with pytest.raises(SyntaxError):
        compiled._compiled(f"# {compiled.MARK}\nx =", "a.py", "exec")
    assert isinstance(compiled.with_ranges(SOURCE), ast.Module)


def test_lazy_modules_of_other_packages_are_not_asked_for_attributes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise ImportError(name)

    def metadata(schedule: object, wrapper: object) -> tuple[str, str]:
        return "", ""

    utils, user = ModuleType("torch._inductor.utils"), ModuleType("torch._inductor.user")
    for module in (utils, user):
        module.get_kernel_metadata = metadata  # type: ignore[attr-defined]
    utils.aggregate_origins = list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lazy_package", Lazy("lazy_package"))
    monkeypatch.setitem(sys.modules, "torch._inductor.utils", utils)
    monkeypatch.setitem(sys.modules, "torch._inductor.user", user)
    monkeypatch.setattr(compiled, "_tag_cache", lambda: None)
    compiled._describe_kernels(utils)
    assert utils.get_kernel_metadata is user.get_kernel_metadata is not metadata


def test_what_cannot_be_changed_does_not_stop_the_import(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loader = SimpleNamespace(exec_module=lambda module: None)

    def fail(module: ModuleType) -> None:
        raise KeyError("gone")

    imports.change_after(loader, fail)
    loader.exec_module(ModuleType("x"))
    assert "some markers of x are missing: KeyError('gone')" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["get_kernel_metadata", "_reload_python_module"])
def test_a_pytorch_with_other_internals_is_named(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {
        "get_kernel_metadata": compiled._describe_kernels,
        "_reload_python_module": compiled._load_with_ranges,
    }
    imports.apply(changes[name], ModuleType("torch._inductor.other"))
    err = capsys.readouterr().err
    assert "some markers of torch._inductor.other are missing" in err
    assert name in err


@pytest.mark.parametrize(("spec", "is_changed"), [(None, True), (object(), False)])
def test_functions_of_older_versions_are_loaded_with_ranges_too(
    spec: object, is_changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    module = ModuleType("torch._inductor.codecache")
    compiled._load_with_ranges_before(module)
    assert hasattr(module, "compile") is is_changed


class Node(SimpleNamespace):
    """A node that can be a key, as those of a graph."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_a_kernel_of_a_library_is_its_own_node_and_not_those_of_its_arguments() -> None:
    flash = SimpleNamespace(overloadpacket=SimpleNamespace(__name__="_flash"))
    argument = Node(**vars(node("rotary", nn_module_stack={"1": ("L['self'].rotary", Block)})))
    own = Node(**vars(node("", nn_module_stack={"1": ("L['self'].attention", Block)})))
    own.target, own.args = SimpleNamespace(__name__="run_with_rng_state"), (None, flash)
    argument.graph = own.graph = SimpleNamespace(nodes=[argument, own])
    found = compiled._nodes_of(SimpleNamespace(), lambda _: [own, argument])
    assert list(found) == [own]
    assert described(own)["ops"] == ["_flash"]
    # What is fused is computed together.
    assert list(compiled._nodes_of([1, 2], lambda _: [own, argument])) == [own, argument]


def test_long_descriptions_are_shortened_and_keep_the_module_that_contains_all() -> None:
    lines = [f'  File "/{"x" * 150}{n}.py", line {n}, in forward\n' for n in range(4)]
    stacks = [
        {"1": ("L['self'].h", Block), "2": (f"L['self'].h.{'y' * 60}{n}", Linear)} for n in range(8)
    ]
    nodes = [
        node(f"op{n}", nn_module_stack=stack, stack_trace=lines[n % 4])
        for n, stack in enumerate(stacks)
    ]
    text = compiled.describe(nodes, is_backward=False)
    found = json.loads(text)
    assert len(text) <= 600
    assert found["common"] == ["h (Block)"]
    assert found["more_modules"] + len(found["modules"]) == 8
    assert len(found["ops"]) == 8


def test_a_node_without_a_place_has_that_of_what_it_reads() -> None:
    """Attention in a checkpoint: PyTorch replaces its node by one that keeps a random state."""
    attention = {"nn_module_stack": {"a": ("L['self'].attn", Block)}}
    linear = {
        "nn_module_stack": {"a": ("L['self'].attn", Block), "b": ("L['self'].attn.v", Linear)}
    }
    inputs = [node("transpose", **linear), *(node("add", **attention) for _ in range(2))]
    state = node("placeholder")
    again = node("attention")
    again.target = "graphsafe_run_with_rng_state"
    again.all_input_nodes = [state, *inputs]
    for is_backward, direction in ((False, "fprop"), (True, "recompute")):
        found = described(again, is_backward=is_backward)
        assert found["modules"] == [["attn (Block)"]]
        assert found["pass"] == direction
    again.all_input_nodes = [state]
    assert described(again)["modules"] == []
    loss = node("_log_softmax")  # Of the compiled module itself.
    loss.all_input_nodes = inputs
    assert described(loss)["modules"] == []
