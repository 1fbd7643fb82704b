"""TensorRT mode: no export was at hand, so these traces are made after public listings."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.frameworks import tensorrt
from aggregator.options import Mode
from tests.builders import DOMAIN, HERE, Thread, Trace, analyze, one_gpu

TENSORRT, MYELIN = 1, 2
GEMM = "LLaMAForCausalLM/lm_head/PLUGIN_V2_Gemm_0"
REGION = "{ForeignNode[LLaMAForCausalLM/ln_f/CONSTANT_1 + a/MUL_0...LLaMAForCausalLM/b]}"


def inference(thread: Thread, start: int, number: int) -> None:
    """One inference of three layers; 1,000 ns long."""
    thread.range("ExecutionContext::enqueue", start, start + 1000, domain=TENSORRT)
    for place, layer in enumerate(("/conv1/Conv + /relu/Relu", REGION, GEMM)):
        begin = start + 10 + 100 * place
        thread.range(layer, begin, begin + 90, domain=TENSORRT)
        thread.launch(f"layer{place}_{number}", begin + 10)
    thread.launch(f"other_{number}", start + 500)


@pytest.fixture
def trace() -> Trace:
    trace, thread = one_gpu()
    for code, name in ((TENSORRT, tensorrt.DOMAIN), (MYELIN, "myelin-exec")):
        thread.range(name, 0, None, domain=code, kind=DOMAIN)
    thread.range("myelinGraphExecute", 120, 150, domain=MYELIN)
    for number in range(3):
        inference(thread, 2000 * number, number)
    return trace


def test_layers_are_ops(trace: Trace, tmp_path: Path) -> None:
    found = analyze(trace, tmp_path)
    assert found.result.mode == Mode.TENSORRT
    assert found.ops() == {
        ("/ExecutionContext::enqueue", ""): 3,
        ("/ExecutionContext::enqueue/|conv1|Conv + |relu|Relu", ""): 3,
        (f"/ExecutionContext::enqueue/{REGION.replace('/', '|')}", ""): 3,
        (f"/ExecutionContext::enqueue/{GEMM}", ""): 3,
    }
    types = found.query(
        f"SELECT DISTINCT op_node_type, tc_eligible FROM view_op_nodes {HERE} ORDER BY 1", 1
    )
    assert types == [
        ("Conv + Relu", 1),
        ("ExecutionContext::enqueue", 0),
        ("ForeignNode", 1),
        ("PLUGIN_V2_Gemm", 1),
    ]


def test_every_inference_is_an_iteration(trace: Trace, tmp_path: Path) -> None:
    found = analyze(trace, tmp_path)
    assert found.result.key_node == "/ExecutionContext::enqueue/|conv1|Conv + |relu|Relu"
    assert [stop for _, stop in found.iterations()][:3] == [100, 2100, 4100]
    named = found.aggregate(key_node="ExecutionContext::enqueue")
    assert [stop for _, stop in found.iterations(named.aggr_id)][:2] == [1000, 3000]


def test_the_mode_says_that_it_is_unverified(trace: Trace, tmp_path: Path) -> None:
    found = analyze(trace, tmp_path)
    assert "unverified: no public capture" in found.result.mode_reason
    assert "UNVERIFIED_MODE" in found.warnings()


def test_the_graph_compilers_ranges_are_no_custom_domain(trace: Trace, tmp_path: Path) -> None:
    found = analyze(trace, tmp_path)
    assert found.query("SELECT domain_name FROM view_domains") == [("default-domain",)]


@pytest.mark.parametrize(
    ("layer", "op_type", "eligible"),
    [
        ("Conv_0 + Relu_1", "Conv + Relu", True),
        ("/layer1/0/conv1/convolution_1", "convolution", True),
        ("a/attention/PLUGIN_V2_GPTAttention_0", "PLUGIN_V2_GPTAttention", True),
        ("PWN(PWN(/sig/Sigmoid), /mul/Mul)", "PWN", False),
        ("Reformatting CopyNode for Output Tensor 0 to Conv_0", "Reformatting CopyNode", False),
        ("MaxPool_5", "MaxPool", False),
        ("17", "17", False),
    ],
)
def test_layer_names_give_types(layer: str, op_type: str, eligible: bool) -> None:
    assert tensorrt.layer_type(layer) == op_type
    assert tensorrt.is_tc_eligible(op_type) is eligible


@pytest.mark.parametrize(
    ("name", "path", "is_eligible"),
    [
        ("Conv_0 + Relu_1", "Conv_0 + Relu_1", True),
        ("/layer1/0/conv/Conv + /layer1/0/relu/Relu", "layer1/0/conv|Conv + relu|Relu", True),
        ("/a/Conv + /b/Relu", "|a|Conv + |b|Relu", True),
        ("PWN(PWN(/enc/l1/Sigmoid), /enc/l1/Mul)", "enc/l1/PWN(PWN(Sigmoid), Mul)", False),
        (
            "{ForeignNode[net/h0/MatMul...net/h1/Add]}",
            "net/{ForeignNode[h0|MatMul...h1|Add]}",
            True,
        ),
        ("onnx::Conv_512", "onnx::Conv_512", False),
        ("onnx::MatMul_3 + /enc/MatMul", "enc/onnx::MatMul_3 + MatMul", True),
    ],
)
def test_fused_layers_are_in_the_group_of_all_their_parts(
    name: str, path: str, is_eligible: bool
) -> None:
    meaning = tensorrt.read_meaning((name,))
    assert meaning.labels == (path,)
    assert tensorrt.is_tc_eligible(tensorrt.layer_type(name)) is is_eligible
