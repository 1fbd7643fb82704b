"""Kernels of compiled code belong to the modules that the compiler recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aggregator.frameworks.inductor import module_path, read_kernel
from tests.builders import Thread, Trace, analyze, one_gpu

OPS = (
    "SELECT o.op_name, o.direction, o.op_type, o.name_grade, o.stack_trace, k.name FROM kernels "
    "AS k JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op ORDER BY k.start"
)
NAMES = (
    "SELECT o.op_name, o.direction, o.op_type, o.name_grade, count(*) FROM kernels AS k "
    "JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op GROUP BY o.id "
    "ORDER BY o.op_name, o.direction"
)
SHAPES = (
    "SELECT o.op_name, o.direction, x.input_shapes, count(*) FROM op_instances AS j JOIN ops AS o "
    "ON o.id = j.op JOIN shape_texts AS x ON x.id = j.shapes WHERE o.name_grade = 'provenance' "
    "AND x.input_shapes <> '' GROUP BY o.id ORDER BY o.op_name"
)


def kernel_range(kernel: str, *modules: list[str], ops: list[str], of: str = "fprop") -> str:
    more = {"ops": ops, "modules": list(modules), "pass": of, "lines": ["/train.py:7"]}
    return f"torch.inductor: {kernel} {json.dumps(more, separators=(',', ':'))}"


def compiled_step(main: Thread, engine: Thread, at: int, seq: int) -> None:
    """A forward pass on one thread and its backward pass on another."""
    attention, mlp = ["h.0 (Block)", "attn (Linear)"], ["h.0 (Block)", "mlp (Linear)"]
    main.range("torch.nn: GPT (GPT)", at, at + 200)
    main.range("Torch-Compiled Region: 0/0", at + 5, at + 190)
    main.range(f"CompiledFunction, seq = {seq}", at + 10, at + 180)
    main.range(kernel_range("extern_kernels.mm", attention, ops=["mm"]), at + 20, at + 40)
    main.op("mm", at + 22, at + 38, sizes="[[8, 16], [16, 4]]")
    main.launch("gemm", at + 30)
    text = kernel_range("triton_poi_fused_add_gelu_0", attention, mlp, ops=["add", "gelu"])
    main.range(text, at + 50, at + 60)
    main.launch("triton_poi_fused_add_gelu_0", at + 55)
    main.range(f"{text[:60]}", at + 90, at + 110)  # cut off
    main.launch("stray", at + 100)
    engine.wrapper("CompiledFunctionBackward", at + 300, at + 400)
    engine.node("CompiledFunctionBackward", at + 302, at + 398, seq=seq)
    again = kernel_range("extern_kernels.mm", attention, ops=["mm"], of="recompute")
    engine.range(again, at + 310, at + 320)
    engine.launch("gemm", at + 315)
    back = kernel_range("extern_kernels.mm", mlp, ops=["mm"], of="bprop")
    engine.range(back, at + 330, at + 350)
    engine.op("mm", at + 332, at + 348)
    engine.launch("gemm", at + 340)
    engine.launch("other", at + 370)


def test_forward_backward_and_recomputed_kernels_have_the_path_of_their_module(
    tmp_path: Path,
) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    for step in range(3):
        main.op("zeros", 1_000 * step, 1_000 * step + 5)
        compiled_step(main, engine, 1_000 * step + 100, seq=step)
    found = analyze(trace, tmp_path)
    rows = found.query(NAMES)
    known = [row for row in rows if row[3] == "provenance"]
    assert known == [
        ("/GPT/h.0/attn/mm", "fprop", "mm", "provenance", 3),
        ("/GPT/h.0/attn/recompute/mm", "recompute", "mm", "provenance", 3),
        ("/GPT/h.0/fused_add_gelu", "fprop", "fused_add_gelu", "provenance", 3),
        ("/GPT/h.0/mlp/mm", "bprop", "mm", "provenance", 3),
    ]
    # Of the op in the range of the kernel: 2 x 8 x 16 x 4 in each of the steps.
    assert found.query(
        "SELECT flops FROM view_op_metrics"
        " WHERE aggr_id = 1 AND op_node_name = '/GPT/h.0/attn/mm' AND flops > 0"
    ) == [(3 * 1024,)]
    assert found.query(SHAPES) == [("/GPT/h.0/attn/mm", "fprop", "<8, 16>; <16, 4>", 3)]
    outside = "/GPT/Torch-Compiled Region: 0|0/"
    assert [row for row in rows if row not in known] == [
        (f"{outside}CompiledFunction", "fprop", "CompiledFunction", "module", 3),
        (
            f"{outside}CompiledFunction/backward/CompiledFunctionBackward",
            "bprop",
            "backward",
            "recorded",
            3,
        ),
    ]
    shared = found.query("SELECT DISTINCT shared_modules FROM ops ORDER BY 1")
    assert shared == [("",), ("h.0 / attn, h.0 / mlp",)]
    assert {row[4] for row in found.query(OPS) if row[3] == "provenance"} == {"/train.py:7"}


def test_a_function_in_the_range_of_a_kernel_is_not_its_op(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    main.op("zeros", 0, 5)
    main.range(kernel_range("extern_kernels.mm", ["h.0 (Block)"], ops=["mm"]), 120, 140)
    main.range("Multiply, seq = 5, sizes = [[8, 16]]", 122, 138)
    main.launch("gemm", 130)
    found = analyze(trace, tmp_path)
    assert found.query(SHAPES) == []
    assert "/h.0/mm" in {name for name, *_ in found.query(NAMES)}


def test_a_call_around_the_range_of_a_kernel_takes_no_more_than_the_ops_own_time(
    tmp_path: Path,
) -> None:
    trace = Trace()
    main = trace.thread()
    main.op("conv2d", 300, 400)
    main.call("cudaMalloc_v3020", 305, 395)
    main.range(kernel_range("extern_kernels.mm", ["h.0 (Block)"], ops=["mm"]), 310, 390)
    main.launch("gemm", 350)
    found = analyze(trace, tmp_path)
    times = "SELECT op_node_name, cpu_time_sum, cpu_overhead_sum FROM view_op_metrics"
    assert set(found.query(f"{times} WHERE aggr_id = 1")) == {
        ("/conv2d", 20, 0),
        ("/h.0/mm", 80, 78),
    }


def test_a_kernel_of_several_modules_is_in_the_one_that_contains_them() -> None:
    kernel = read_kernel(
        kernel_range("triton_poi_fused_add_1", ["a (A)", "b (B)"], ["a (A)", "c (C)"], ops=["add"])
    )
    assert kernel is not None
    assert (kernel.common, kernel.shared) == (("a",), "a / b, a / c")
    assert module_path("/GPT/CompiledFunction/", kernel) == "/GPT/a/"


def test_a_compiled_function_that_calls_the_model_around_it_names_it_once() -> None:
    kernel = read_kernel(kernel_range("extern_kernels.mm", [" (GPT)", "a (A)"], ops=["mm"]))
    assert kernel is not None
    assert module_path("/GPT/", kernel) == "/GPT/a/"
    assert module_path("/", kernel) == "/GPT/a/"


def test_a_kernel_that_is_launched_for_other_ops_is_not_called_after_its_first_ones() -> None:
    linear = ["h.0 (Block)", "mlp (Linear)"]
    name = "triton_per_fused_native_layer_norm_backward_view_4"
    kernel = read_kernel(kernel_range(name, linear, ops=["sum"], of="bprop"))
    assert kernel is not None
    assert (kernel.label, kernel.common) == ("fused_sum", ("h.0", "mlp"))


@pytest.mark.parametrize(
    "text",
    [
        "torch.inductor: triton_poi_fused_add_0 {",
        "torch.inductor: triton_poi_fused_add_0 []",
        "torch.inductor: triton_poi_fused_add_0",
        "torch.inductor: ",
    ],
)
def test_a_damaged_description_is_no_kernel(text: str) -> None:
    assert read_kernel(text) is None


def test_a_description_with_other_types_has_no_module() -> None:
    kernel = read_kernel(
        'torch.inductor: k {"ops":7,"modules":[3,[4]],"pass":9,"lines":{},"more_modules":"x"}'
    )
    assert kernel is not None
    assert (kernel.ops, kernel.common, kernel.direction, kernel.lines) == ((), (), "fprop", ())


def fused_range(op: str, moved: object) -> str:
    more = {"ops": [op], "modules": [["a (A)"]], "bytes": moved}
    return f"torch.inductor: triton_poi_fused_{op}_0 {json.dumps(more)}"


def test_bytes_of_generated_kernels_are_those_that_the_compiler_recorded(tmp_path: Path) -> None:
    trace, main = one_gpu()
    moved = {"add": 4096, "gelu": "values", "sub": -1, "mul": None}
    texts = {op: fused_range(op, value) for op, value in moved.items()}
    texts["mul"] = kernel_range("triton_poi_fused_mul_0", ["a (A)"], ops=["mul"])
    for step in range(3):
        main.op("zeros", 1_000 * step, 1_000 * step + 5)
        for place, (op, text) in enumerate(texts.items()):
            at = 1_000 * step + 100 * (place + 1)
            main.range(text, at, at + 50)
            main.launch(f"triton_poi_fused_{op}_0", at + 10)
    rows = analyze(trace, tmp_path).query(
        "SELECT unit_name, calls, bytes_per_call, flops_per_call, unknown_reason FROM view_op_units"
        " WHERE aggr_id = 1 AND unit_name LIKE 'fused%' ORDER BY 1"
    )
    no_record = "what this compiled kernel moves was not recorded"
    assert rows == [
        ("fused_add", 3, 4096, None, "the operations of fused ops are not counted"),
        ("fused_gelu", 3, None, None, "which elements it moves depends on values"),
        ("fused_mul", 3, None, None, no_record),
        ("fused_sub", 3, None, None, no_record),
    ]


@pytest.mark.parametrize("call", ["triton_poi_fused_add_0", ""])
def test_a_program_whose_kernels_are_all_generated_is_not_read_in_simple_mode(
    call: str, tmp_path: Path
) -> None:
    """Versions before 2.3 have no range around the launch of a generated kernel."""
    trace, main = one_gpu()
    for number in range(4):
        at = 1_000 + 1_000 * number
        main.range("Torch-Compiled Region: 0/0", at, at + 300)
        if call:
            main.range(call, at + 100, at + 200)
        main.launch("triton_poi_fused_add_0", at + 110)
    found = analyze(trace, tmp_path)
    assert found.query("SELECT value FROM dldb_meta WHERE key = 'mode'") == [("pytorch",)]
    name = "/".join(["/Torch-Compiled Region: 0|0", call]).rstrip("/")
    grades = found.query("SELECT DISTINCT op_name, name_grade FROM ops")
    # Without a range of its own the work is known to be of the region, and of no op in it.
    assert grades == [(name, "recorded" if call else "module")]
