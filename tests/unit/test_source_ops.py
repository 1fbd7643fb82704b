"""The ops that TorchInductor fused into a kernel are divided as it joined them."""

from __future__ import annotations

import random

import pytest

from aggregator.kernels.source_ops import source_ops
from tests.builders import query
from tests.conftest import ProfileFactory

WILD = {
    "torch_compile_triton__trace": {
        "_unsafe_view, add",
        "_unsafe_view, add, mean, mul, pow, rsqrt",
        "_unsafe_view, mul, silu",
        "add, mean, mul, pow, rsqrt",
    },
    "triton_example__triton_example": {"add, cos, sin"},
}


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("triton_per_fused__log_softmax_nll_loss_forward_3", "_log_softmax nll_loss_forward"),
        ("triton_poi_fused__to_copy_index_add_view_4", "_to_copy index_add view"),
        (
            "triton_poi_fused_native_dropout_threshold_backward_1",
            "native_dropout threshold_backward",
        ),
        ("triton_poi_fused_constant_pad_nd_moe_forward_0", "constant_pad_nd moe_forward"),
        ("triton_poi_fused_add_0d1d2d3de", "add"),
        ("triton_for_fused__foreach_add__foreach_mul_0", "_foreach_add _foreach_mul"),
        ("triton_poi_fused_0", ""),
        ("triton_poi_fused", ""),
        ("volta_sgemm_128x64_nn", ""),
    ],
)
def test_a_name_is_divided_into_its_ops(name: str, ops: str) -> None:
    assert source_ops(name) == tuple(ops.split())


def test_sorted_names_joined_as_inductor_joins_them_are_divided_again() -> None:
    """Without ops that are part of others: ``log`` and ``sigmoid``, ``index`` and others."""
    known = (  # noqa: SIM905
        "_log_softmax _softmax _to_copy _unsafe_view abs add addmm amax arange cat clone cos "
        "convolution div embedding eq exp expand gelu gt log mean mul native_dropout "
        "native_layer_norm native_layer_norm_backward neg nll_loss_forward permute pow relu rsqrt "
        "select_backward silu sin slice split_with_sizes sqrt sub sum t tanh_backward "
        "threshold_backward transpose unsqueeze view where"
    ).split()
    draw = random.Random(21)
    for _ in range(500):
        ops = sorted(draw.sample(known, draw.randint(1, 8)))
        assert source_ops(f"triton_poi_fused_{'_'.join(ops)}_{draw.randint(0, 99)}") == tuple(ops)


@pytest.mark.parametrize("name", WILD)
def test_fused_kernels_of_public_traces_list_their_ops(name: str, imported: ProfileFactory) -> None:
    sql = "SELECT DISTINCT source_ops FROM view_kernels_by_full_name WHERE source_ops <> ''"
    rows = query(imported(f"{name}.json.gz"), sql)
    assert {row[0] for row in rows} == WILD[name]
