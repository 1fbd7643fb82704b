"""Operators of serving engines, each counted by hand from its sizes and element types."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.costs.formulas.attention import NO_LENGTHS, Mask, visible_pairs
from aggregator.costs.formulas.call import Argument, Cost, OpCall, Shape
from aggregator.costs.formulas.experts import NO_EXPERTS
from aggregator.costs.formulas.registry import count, is_collective
from aggregator.costs.formulas.serving import kind_of
from aggregator.frameworks.serving import Requests, StepLengths, read_lengths
from aggregator.kernels.element_types import read_element_types
from tests.builders import analyze_file, query
from tests.conftest import ProfileFactory

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data/flops/serving_ops.json").read_text("utf-8")
)
"""Calls with sizes and element types; what each costs is written as it was counted by hand."""
HALF, FP8, BYTE, INT, FLOAT = "bfloat16", "float8_e4m3fn", "uint8", "int32", "float32"


def cost(full_name: str, *arguments: tuple[Shape, str] | None, **more: Any) -> Cost:
    """Cost of a call; None: an argument without sizes."""
    pairs = [(tuple(one[0]), one[1]) if one else ((), "") for one in arguments]
    parameters = tuple(more.pop("parameters", {}).items())
    call = OpCall(
        full_name.rpartition("::")[2],
        tuple(shape for shape, _ in pairs),
        full_name=full_name,
        types=tuple(kind for _, kind in pairs),
        parameters=parameters,
        **more,
    )
    return count(call)


QUERY, KEYS = ((4, 16, 64), HALF), ((4, 2, 64), HALF)
STEP = StepLengths(Requests(), Requests(4, 1000, 4, 1000))


@pytest.mark.parametrize("case", CASES["products"])
def test_a_product_counts_its_unpacked_weights(case: dict[str, Any]) -> None:
    found = cost(case["name"], *case["arguments"])
    assert (found.flops, found.num_bytes) == (eval(case["flops"]), eval(case["bytes"]))
    assert found.operand == case["operand"] or not case["operand"]


@pytest.mark.parametrize("case", CASES["scales"])
def test_scales_of_blocks_are_read_once(case: dict[str, Any]) -> None:
    out = ((8, 256), HALF)
    plain = cost(case["name"], out, *case["operands"])
    found = cost(case["name"], out, *case["operands"], *case["scales"])
    assert found.flops == plain.flops == 2 * 8 * 128 * 256
    assert found.num_bytes == (plain.num_bytes or 0) + eval(case["scale_bytes"])


def test_a_product_with_its_result_first_is_the_same() -> None:
    out, left, right = ((8, 64), HALF), ((8, 64), FP8), ((64, 64), FP8)
    assert cost("_C::cutlass_scaled_mm", out, left, right).flops == 2 * 8 * 64 * 64


def test_sizes_of_no_product_stay_unknown() -> None:
    assert cost("vllm::some_gemm", ((3, 5), HALF), ((7, 11), HALF)).flops is None


# --- experts


def test_all_products_of_experts_count_the_routed_rows() -> None:
    """Four tokens to two of eight experts: eight rows, of at most eight experts."""
    found = cost(
        "vllm::outplace_fused_experts",
        *(((4, 32), HALF), ((8, 48, 32), HALF), ((8, 32, 24), HALF)),
        *(((4, 2), FLOAT), ((4, 2), INT)),
    )
    assert found.flops == 2 * 8 * (48 * 32 + 32 * 24)
    assert found.num_bytes == 2 * (2 * 4 * 32 + 8 * 48 * 32 + 8 * 32 * 24)


def test_one_token_reads_the_weights_of_its_experts_only() -> None:
    found = cost(
        "vllm::rocm_aiter_fused_moe",
        *(((1, 32), HALF), ((8, 48, 32), HALF), ((8, 32, 24), HALF)),
        *(((1, 2), FLOAT), ((1, 2), INT)),
    )
    assert found.num_bytes == 2 * (2 * 32 + 2 * 48 * 32 + 2 * 32 * 24)


def test_scales_of_the_experts_that_are_reached_are_read() -> None:
    """MXFP4: 32 elements are 16 bytes with one scale; one token reaches two of eight experts."""
    weights = (((8, 48, 16), BYTE), ((8, 32, 12), BYTE))
    scales = (((8, 48, 1), BYTE), ((8, 32, 1), BYTE))
    routing = (((1, 2), FLOAT), ((1, 2), INT))
    found = cost("vllm::fused_moe_mxfp4", ((1, 32), HALF), *weights, *routing, *scales)
    assert found.flops == 2 * 2 * (48 * 32 + 32 * 24)
    assert found.num_bytes == 2 * (2 * 32) + 2 * (48 * 16 + 32 * 12) + 2 * (48 + 32)


def test_experts_without_weights_take_those_of_the_operators_inside() -> None:
    """MXFP4: 16 bytes are 32 elements; the router's scores (4, 8) say the number of experts."""
    inner = (
        *(Argument((8, 16, 48), BYTE), Argument((8, 12, 32), BYTE), Argument((1, 8, 24), HALF)),
        *(Argument((4, 2), HALF), Argument((4, 2), "int16"), Argument((4, 1), "uint32")),
    )
    found = cost("vllm::moe_forward", ((4, 32), HALF), ((4, 8), HALF), inner=inner)
    assert found.flops == 2 * 8 * (32 * 48 + 24 * 32)
    assert found.operand == "bfloat16"


def test_experts_of_unknown_sizes_say_so() -> None:
    found = cost("vllm::moe_forward", ((4, 32), HALF), ((4, 8), HALF))
    assert (found.flops, found.reason) == (None, NO_EXPERTS)


@pytest.mark.parametrize("case", CASES["stages"])
def test_a_stage_of_experts_counts_its_own_product(case: dict[str, Any]) -> None:
    assert cost(case["name"], *case["arguments"]).flops == eval(case["flops"])


# --- attention


@pytest.mark.parametrize("left", [-1, 0, 3, 100])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(8, 8), (3, 10), (1, 7)])
def test_a_mask_leaves_the_pairs_that_it_names(
    queries: int, keys: int, causal: bool, left: int
) -> None:
    own = np.arange(queries)[:, None] + keys - queries
    key = np.arange(keys)[None, :]
    seen = np.ones((queries, keys), dtype=bool)
    seen &= key <= own if causal else True
    seen &= key >= own - left if left >= 0 else True
    assert visible_pairs(queries, keys, Mask(causal, left, -1)) == seen.sum()


def test_a_decoding_step_reads_the_cache_by_the_lengths_of_the_step() -> None:
    """Grouped queries: sixteen heads share two heads of keys, which are read once."""
    found = cost("vllm::unified_attention_with_output", QUERY, KEYS, KEYS, QUERY, lengths=STEP)
    assert found.flops == 2 * 1000 * 16 * (64 + 64)
    assert found.num_bytes == 2 * (2 * 4 * 16 * 64 + 1000 * 2 * (64 + 64))


def test_a_prefill_counts_the_lower_half() -> None:
    """Two prompts of 3 and 5 tokens, of which the second has 2 in the cache."""
    lengths = StepLengths(Requests(8, 3 + 7, 9 + 25, 9 + 35), Requests())
    tensors = (((8, 4, 16), HALF),) * 4
    found = cost("vllm::unified_attention_with_output", *tensors, lengths=lengths)
    pairs = (1 + 2 + 3) + (3 + 4 + 5 + 6 + 7)
    assert found.flops == 2 * pairs * 4 * 32


@pytest.mark.parametrize(
    ("new", "so_far", "pairs", "keys"),
    [
        # Decoding: the last four keys of ten.
        (1, 10, 4, 4),
        # A prompt of six: 1 + 2 + 3 + 4 + 4 + 4.
        (6, 6, 18, 6),
        # Three new tokens after seven: four keys each, of the last six.
        (3, 10, 12, 6),
    ],
)
def test_a_window_over_one_request_is_exact(new: int, so_far: int, pairs: int, keys: int) -> None:
    tensors = (((new, 4, 16), HALF), *(((100, 16, 2, 16), HALF),) * 2)
    found = cost(
        *("aiter::mha_batch_prefill", *tensors, ((2,), INT)),
        lengths=StepLengths(Requests(), Requests(new, so_far, new**2, new * so_far)),
        parameters={"window_left": 3, "window_right": 0, "is_causal": True},
    )
    assert found.flops == 2 * pairs * 4 * 32
    assert found.num_bytes == 2 * (2 * new * 4 * 16 + keys * 2 * 32)


def test_a_window_in_a_batch_of_one_length_is_exact() -> None:
    """Eight queries that see themselves and two before: 1 + 2 + 6 x 3."""
    tensors = (((2, 8, 4, 16), HALF),) * 3
    window = {"window_left": 2, "window_right": 0, "is_causal": True}
    found = cost("flash_attn::_flash_attn_forward", *tensors, parameters=window)
    assert found.flops == 2 * (2 * 21) * 4 * 32


def test_a_window_bounds_the_keys_of_each_query() -> None:
    page = ((100, 16, 2, 64), HALF)
    window = {"window_left": 127, "window_right": 0, "is_causal": True}
    found = cost(
        *("aiter::mha_batch_prefill", QUERY, page, page, ((5,), INT)),
        lengths=STEP,
        parameters=window,
    )
    assert found.flops == 2 * (4 * 128) * 16 * 128


def test_a_batch_of_one_length_needs_no_step() -> None:
    tensors = (((2, 8, 4, 16), HALF),) * 3
    whole = cost("flash_attn::_flash_attn_forward", *tensors, parameters={"is_causal": False})
    half = cost("flash_attn::_flash_attn_forward", *tensors, parameters={"is_causal": True})
    assert (whole.flops, half.flops) == (2 * 2 * 64 * 4 * 32, 2 * 2 * 36 * 4 * 32)


def test_ragged_sequences_of_unknown_lengths_stay_unknown() -> None:
    tensors = (((100, 4, 16), HALF),) * 3
    starts = ((4,), INT)
    found = cost("flash_attn::_flash_attn_varlen_forward", *tensors, starts, starts)
    assert (found.flops, found.reason) == (None, NO_LENGTHS)
    single = cost("flash_attn::_flash_attn_varlen_forward", *tensors, ((2,), INT), ((2,), INT))
    assert single.flops == 2 * 100 * 100 * 4 * 32


def test_a_backward_pass_is_five_products() -> None:
    tensors = (((2, 8, 4, 16), HALF),) * 5
    found = cost("flash_attn::_flash_attn_backward", *tensors, parameters={"is_causal": False})
    assert found.flops == 2 * 2 * 64 * 4 * 5 * 16


@pytest.mark.parametrize(
    ("name", "layout", "products"),
    [
        ("aten::_scaled_dot_product_flash_attention", (2, 4, 8, 16), 2),
        ("aten::_flash_attention_forward", (2, 8, 4, 16), 2),
        ("aten::_scaled_dot_product_cudnn_attention_backward", (2, 4, 8, 16), 5),
    ],
)
def test_pytorchs_attention_counts_what_its_mask_leaves(
    name: str, layout: Shape, products: int
) -> None:
    """Eight queries see 36 of 64 pairs, by the call or else by the name of its kernel."""
    tensors = [(layout, HALF)] * (3 + (products == 5))
    whole, half = (2 * 4 * pairs * products * 2 * 16 for pairs in (64, 36))
    assert cost(name, *tensors).flops == whole
    assert cost(name, *tensors, is_causal=True).flops == half
    assert cost(name, *tensors, parameters={"is_causal": True}).flops == half
    assert cost(name, *tensors, parameters={"is_causal": False}, is_causal=True).flops == whole


def test_a_latent_cache_is_read_once() -> None:
    cache, out = ((500, 1, 1, 576), HALF), ((4, 16, 512), HALF)
    found = cost("aiter::mla_decode_fwd", ((4, 16, 576), HALF), cache, out, lengths=STEP)
    assert found.flops == 2 * 1000 * 16 * (576 + 512)
    assert found.num_bytes == 2 * (4 * 16 * (576 + 512) + 1000 * 576)


def test_a_step_of_other_tokens_is_not_that_of_the_call() -> None:
    """A draft model runs inside the step of the model that it drafts for."""
    query = ((2, 16, 64), HALF)
    found = cost("vllm::unified_attention_with_output", query, query, query, lengths=STEP)
    assert found.flops is None


# --- other work


@pytest.mark.parametrize("case", CASES["others"])
def test_other_work_moves_each_element_once(case: dict[str, Any]) -> None:
    found = cost(case["name"], *case["arguments"])
    assert (found.flops, found.num_bytes) == (eval(case["flops"]), eval(case["bytes"]))


def test_a_fused_all_reduce_moves_its_message() -> None:
    name = "vllm::rocm_aiter_fused_allreduce_rmsnorm"
    found = cost(name, ((8, 64), HALF), ((8, 64), HALF), ((64,), HALF))
    assert (found.flops, found.num_bytes) == (None, 2 * 512)
    assert is_collective("rocm_aiter_fused_allreduce_rmsnorm", name)


@pytest.mark.parametrize(
    "name", ["aten::multi_head_attention", "attention", "my_lib::attn_gate_backward_gemm"]
)
def test_names_of_other_things_have_no_kind(name: str) -> None:
    assert kind_of(name) is None


def test_lengths_are_read_from_both_engines() -> None:
    vllm = "execute_32_context_1(sq3sk7sqsq9sqsk21)_generation_32(sq32sk900sqsq32sqsk900)"
    fields = (
        "step[MIXED bs=33 c_sq=3 c_sk=7 c_sqsq=9 c_sqsk=21 g_sq=32 g_sk=900 g_sqsq=32 g_sqsk=900]"
    )
    expected = StepLengths(Requests(3, 7, 9, 21), Requests(32, 900, 32, 900))
    assert read_lengths(vllm) == read_lengths(fields) == expected
    assert read_lengths("step[DECODE bs=32]") is None


def test_operands_of_two_types_are_multiplied_in_the_wider_one() -> None:
    found = read_element_types("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu")
    assert (found.read, found.write) == ("bfloat16", "bfloat16")
    assert read_element_types("_p_matmul_ogs_NTN_bf16xmxfp8xmxfp4_128x256").read == "float8"


# --- other people's counts of the same traces

#: By engine: the trace, and op class -> (our units, deviation in %); see benchmarks/FLOPS.md.
REFERENCES = {
    "sglang_decode": (
        "inference__sglang_decode__sglang_Qwen3-8B_decode",
        {
            "GEMM": ("mm",),
            "InferenceAttention": ("attention_paged_attention_ragged_100",),
            "RMSNorm": ("add_rmsnorm", "rmsnorm"),
            "RoPE_fwd": ("rotary_embedding",),
        },
    ),
    "vllm_decode_full": (
        "inference__vllm_decode_full__graph_execution",
        {
            "GEMM": ("mm", "addmm"),
            "InferenceAttention": ("unified_attention_with_output",),
            "RMSNorm": ("rmsnorm2d_fwd_with_add_ck", "rms_norm"),
        },
    ),
}
TOLERANCE = 0.01


def _reference_flops(path: Path) -> dict[str, float]:
    """The operations of each class by TraceLens."""
    csv.field_size_limit(1 << 30)
    flops: dict[str, float] = defaultdict(float)
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["GFLOPS"]:
                flops[row["op category"]] += (
                    1e9 * float(row["GFLOPS"]) * int(row["operation_count"])
                )
    return flops


@pytest.mark.parametrize("engine", REFERENCES)
def test_replayed_graphs_have_the_operations_that_another_analyzer_counts(
    engine: str, shared_dir: Path, imported: ProfileFactory
) -> None:
    trace, classes = REFERENCES[engine]
    path = shared_dir / "public" / "tracelens" / engine / "unified_perf_summary.csv"
    if not path.is_file():
        pytest.skip(f"no reference at {path}")
    flops = _reference_flops(path)
    database = imported(f"{trace}.json.gz")
    units = "SELECT unit_name, sum(calls * flops_per_call) FROM view_op_units WHERE aggr_id = 1"
    ours = dict(query(database, f"{units} GROUP BY 1"))
    for category, names in classes.items():
        counted = sum(ours[name] for name in names)
        assert counted == pytest.approx(flops[category], rel=TOLERANCE), category


EAGER = {
    "GEMM": ("addmm", "bmm"),
    "CONV_fwd": ("convolution",),
    "SDPA_fwd": ("_scaled_dot_product_flash_attention",),
}
"""Classes of TraceLens -> our units. It counts the bias of ``addmm``, 0.05 %; softmax of its own
ops, norms (8 operations for each element here, 5 there) and copies are counted by other rules."""


@pytest.mark.parametrize(
    "model",
    ["Falconsai_nsfw_image_detection", "facebook_timesformer-base-finetuned-k400"],
)
def test_eager_traces_have_the_operations_that_another_analyzer_counts(
    model: str, shared_dir: Path, tmp_path: Path
) -> None:
    folder = shared_dir / "public" / "tracelens" / f"{model}__1016002"
    if not (folder / "trace.json.gz").is_file():
        pytest.skip(f"no trace at {folder}")
    expected = _reference_flops(folder / "unified_perf_summary.csv")
    found = analyze_file(folder / "trace.json.gz", tmp_path / "dlprof_dldb.sqlite")
    units = "SELECT unit_name, sum(calls * flops_per_call) FROM view_op_units WHERE aggr_id = 1"
    ours = dict(found.query(f"{units} GROUP BY 1"))
    classes = EAGER.keys() & expected.keys()
    assert {"GEMM", "CONV_fwd"} <= classes
    for category in classes:
        counted = sum(ours.get(name, 0) for name in EAGER[category])
        assert counted == pytest.approx(expected[category], rel=TOLERANCE), category


@pytest.mark.parametrize("engine", REFERENCES)
def test_nearly_all_time_of_replayed_graphs_has_known_operations(
    engine: str, imported: ProfileFactory
) -> None:
    database = imported(f"{REFERENCES[engine][0]}.json.gz")
    [(share,)] = query(
        database,
        "SELECT 1.0 * sum(CASE WHEN flops IS NOT NULL THEN gpu_time_sum END) / sum(gpu_time_sum) "
        "FROM view_op_efficiency WHERE aggr_id = 1",
    )
    assert share > 0.95
    reasons = query(
        database, "SELECT DISTINCT unknown_reason FROM view_op_units WHERE flops_per_call IS NULL"
    )
    assert ("there is no formula for it",) not in reasons
