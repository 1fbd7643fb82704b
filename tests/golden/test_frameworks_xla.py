"""Rules of the JAX mode, one small trace each."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.frameworks import xla
from aggregator.frameworks.meaning import RangeKind
from aggregator.options import Mode
from tests.builders import DOMAIN, HERE, Analyzed, Process, Thread, Trace, analyze

TSL = 1


def tsl_trace() -> tuple[Trace, Process, Thread]:
    """A trace whose domain 1 is TSL, with the thread that runs programs."""
    trace = Trace()
    trace.gpu()
    process = trace.process()
    main = process.thread(1)
    main.range("TSL", 0, None, domain=TSL, kind=DOMAIN)
    return trace, process, main


def module(thread: Thread, name: str, start: int, end: int, program: int | None = 1) -> None:
    number = "" if program is None else f",program_id={program}"
    thread.range(f"XlaModule:#hlo_module={name}{number}#", start, end, domain=TSL)


def thunk(thread: Thread, hlo_op: str, start: int, end: int, name: str = "") -> None:
    prefix = f"name={name}," if name else ""
    thread.range(f"Thunk:#{prefix}hlo_op={hlo_op},unique_hlo_op_id=7#", start, end, domain=TSL)


def one_step(thread: Thread, start: int, kernel: str) -> None:
    """A run of ``jit_step`` with one op; 100 ns long."""
    module(thread, "jit_step", start, start + 100)
    thunk(thread, "dot.1", start + 10, start + 40)
    thread.launch(kernel, start + 12)


def compile_range(thread: Thread, start: int, end: int) -> None:
    thread.range("XlaCompile:#module=jit_step#", start, end, domain=TSL)


def test_kernels_that_the_compiler_tries_count_for_no_loop(tmp_path: Path) -> None:
    # GIVEN much more time in kernels that are tried, as ops of their own, than in the steps
    trace, _, main = tsl_trace()
    compile_range(main, 1_000, 900_000)
    for number in range(50):
        at = 2_000 + 10_000 * number
        thunk(main, "cudnn-conv.7", at, at + 9_000)
        main.launch("tried", at + 10, gpu=(at + 20, at + 8_000))
    for step in range(12):
        one_step(main, 1_000_000 + 1_000 * step, "gemm")
    # WHEN it is analyzed
    found = analyze(trace, tmp_path)
    # THEN the steps are all of the work that counts
    sql = "SELECT coverage FROM view_key_node_candidates WHERE candidate_name = 'jit_step'"
    assert found.query(sql) == [(100.0,)]
    assert "confidence high (" in found.result.key_node_reason


def test_work_of_the_compilers_helper_threads_is_autotuning(tmp_path: Path) -> None:
    trace, process, main = tsl_trace()
    compile_range(main, 1000, 2000)
    helper = process.thread(2)
    helper.range("XlaPass:#name=x,module=y#", 1010, 1050, domain=TSL)
    helper.launch("redzone", 1100)
    helper.set(1200, gpu=(1210, 1220))
    one_step(main, 3000, "gemm")
    found = analyze(trace, tmp_path)
    assert found.kernels()["redzone"] == ("/autotuning", "")
    assert found.ops() == {("/autotuning", ""): 1, ("/jit_step/dot.1", ""): 1}
    assert found.query("SELECT op_node_id FROM view_memory_ops") == [("AUTOTUNING_1",)]


@pytest.mark.parametrize("why", ["no ranges", "runs programs", "before", "other process"])
def test_work_of_other_threads_is_not(tmp_path: Path, why: str) -> None:
    trace, process, main = tsl_trace()
    compile_range(main, 1000, 2000)
    other = trace.thread(200, 9) if why == "other process" else process.thread(2)
    if why == "other process":
        other.range("TSL", 0, None, domain=TSL, kind=DOMAIN)
    if why != "no ranges":
        other.range("XlaPass:#name=x,module=y#", 300, 350, domain=TSL)
    if why == "runs programs":
        one_step(other, 400, "earlier")
    other.launch("copy_kernel", 900 if why == "before" else 1100)
    one_step(main, 3000, "gemm")
    found = analyze(trace, tmp_path)
    assert found.kernels()["copy_kernel"][0] == "unassociated_cudaLaunchKernel_v7000"


def test_modules_without_a_program_id_are_autotuning(tmp_path: Path) -> None:
    trace, process, main = tsl_trace()
    helper = process.thread(2)
    module(helper, "dot", 100, 200, program=None)
    thunk(helper, "dot.1", 110, 150)
    helper.launch("candidate", 120)
    one_step(main, 3000, "gemm")
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "candidate": ("/autotuning/dot.1", ""),
        "gemm": ("/jit_step/dot.1", ""),
    }
    rows = found.query(f"SELECT op_node_name, tc_eligible FROM view_op_nodes {HERE}", 1)
    assert dict(rows) == {"/autotuning/dot.1": 0, "/jit_step/dot.1": 1}


def test_a_thunk_around_others_owns_only_the_rest(tmp_path: Path) -> None:
    """A loop's body and what a command buffer updates keep their own names."""
    trace, _, main = tsl_trace()
    module(main, "jit_step", 0, 100)
    thunk(main, "while.2", 10, 90)
    thunk(main, "fusion.1", 20, 30)
    main.launch("first", 22)
    thunk(main, "fusion.1", 40, 50)
    main.launch("second", 42)
    main.launch("condition", 60)
    module(main, "jit_step", 200, 300)
    thunk(main, "while.2", 210, 290)
    main.launch("only_condition", 220)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "first": ("/jit_step/fusion.1", ""),
        "second": ("/jit_step/fusion.1", ""),
        "condition": ("/jit_step/while.2", ""),
        "only_condition": ("/jit_step/while.2", ""),
    }
    assert found.ops() == {("/jit_step/fusion.1", ""): 2, ("/jit_step/while.2", ""): 2}


def test_an_op_is_found_by_its_name_wherever_it_stands(tmp_path: Path) -> None:
    """Steps whose ops come in another order share their ops."""
    trace, _, main = tsl_trace()
    for step, order in enumerate((("a", "b", "c"), ("a", "c", "b"), ("a", "c", "b"))):
        module(main, "jit_step", 1000 * step, 1000 * step + 900)
        for place, name in enumerate(order):
            start = 1000 * step + 100 * place + 10
            thunk(main, name, start, start + 50)
            main.launch(f"{name}{step}", start + 5)
    found = analyze(trace, tmp_path)
    assert set(found.ops().values()) == {3}
    assert found.result.key_node == "/jit_step/a"
    assert len(found.iterations()) == 4


def test_programs_that_begin_differently_are_the_key_node_themselves(tmp_path: Path) -> None:
    trace, _, main = tsl_trace()
    for step in range(3):
        module(main, "jit_step", 1000 * step, 1000 * step + 900)
        thunk(main, f"op.{step}", 1000 * step + 10, 1000 * step + 60)
        main.launch(f"kernel{step}", 1000 * step + 20)
    found = analyze(trace, tmp_path)
    assert found.result.key_node == "jit_step"
    assert [stop for _, stop in found.iterations()][:2] == [900, 1900]


def test_a_users_own_ranges_can_be_the_key_node(tmp_path: Path) -> None:
    trace, _, main = tsl_trace()
    for step in range(3):
        main.range(f"step {step}", 1000 * step, 1000 * step + 950)
        one_step(main, 1000 * step + 100, f"gemm{step}")
    found = analyze(trace, tmp_path, key_node="step #")
    assert [stop for _, stop in found.iterations()][:2] == [950, 1950]


def test_the_frameworks_names_are_the_path(tmp_path: Path) -> None:
    trace, _, main = tsl_trace()
    module(main, "jit_step", 0, 100)
    thunk(main, "fusion.1", 10, 20, name="jit(step)/jvp(Net)/Conv_0/mul")
    thunk(main, "fusion.2", 30, 40, name="transpose(jvp(Net))/Dense_0")
    thunk(main, "fusion.3", 50, 60, name="jit(step)")
    main.launch("kernel", 52)
    assert set(analyze(trace, tmp_path).ops()) == {
        ("/jit_step/jvp(Net)/Conv_0/mul/fusion.1", ""),
        ("/jit_step/transpose(jvp(Net))/Dense_0/fusion.2", ""),
        ("/jit_step/fusion.3", ""),
    }


@pytest.mark.parametrize(
    ("name", "op_type", "eligible"),
    [
        ("convolution.12", "convolution", True),
        ("dot_general", "dot_general", True),
        ("cublas-gemm.1.2", "cublas-gemm", True),
        ("gemm_fusion_dot.3", "gemm_fusion_dot", True),
        ("cudnn-conv-bw-filter.5", "cudnn-conv-bw-filter", True),
        ("loop_convert_fusion_2", "loop_convert_fusion", False),
        ("wrapped_convert.4", "wrapped_convert", False),
        ("command_buffer_16", "command_buffer", False),
        ("all-reduce-start.1", "all-reduce-start", False),
        ("custom-call.1", "custom-call", False),
    ],
)
def test_range_names_give_types_and_eligibility(name: str, op_type: str, eligible: bool) -> None:
    kind, label, found = xla.classify(f"Thunk:#hlo_op={name}#")
    assert (kind, label, found) == (RangeKind.OP, name, op_type)
    assert xla.is_tc_eligible(found) is eligible


def test_jax_mode_needs_its_ranges(tmp_path: Path) -> None:
    trace, _, main = tsl_trace()
    one_step(main, 0, "gemm")
    found: Analyzed = analyze(trace, tmp_path, mode=Mode.JAX)
    assert found.result.mode_reason == "as asked"
