"""The ops that TorchInductor fused into a kernel, from the kernel's name.

Inductor names a kernel after the distinct ops that it computes, sorted and joined by underscores:
``triton_red_fused__unsafe_view_add_mean_1`` computes ``_unsafe_view``, ``add`` and ``mean``. Many
ops have underscores themselves, so a name is divided with a list of PyTorch's ops.
"""

from __future__ import annotations

import re
from typing import Final

_FUSED: Final = re.compile(r"^triton_[a-z]{3}_fused_(\w*?)_?\d+(?:d[0-9cde]*)?$")
_OPS: Final = frozenset(
    """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
_adaptive_avg_pool3d_backward _add_relu _aminmax _backward _batch_norm_impl_index
_batch_norm_impl_index_backward _batch_norm_no_update _batch_norm_with_update _cholesky_solve_helper
_chunk_cat _coalesce _coalesced _compute_linear_combination _conj _conj_copy _conj_physical
_convolution _convolution_double_backward _convolution_mode _copy_from _cummax_helper _cummin_helper
_dyn_quant_matmul_4bit _efficientzerotensor _embedding_bag _embedding_bag_backward
_embedding_bag_dense_backward _embedding_bag_forward_only _embedding_bag_per_sample_weights_backward
_euclidean_dist _fft_c2c _fft_c2r _fft_r2c _flash_attention_backward _flash_attention_forward
_flash_attention_forward_no_dropout_inplace _foreach_abs _foreach_acos _foreach_add _foreach_addcdiv
_foreach_addcmul _foreach_asin _foreach_atan _foreach_ceil _foreach_clamp_max _foreach_clamp_min
_foreach_clone _foreach_copy _foreach_cos _foreach_cosh _foreach_div _foreach_erf _foreach_erfc
_foreach_exp _foreach_expm1 _foreach_floor _foreach_frac _foreach_lerp _foreach_lgamma _foreach_log
_foreach_log10 _foreach_log1p _foreach_log2 _foreach_max _foreach_maximum _foreach_minimum
_foreach_mm _foreach_mul _foreach_neg _foreach_norm _foreach_pow _foreach_powsum _foreach_reciprocal
_foreach_round _foreach_rsqrt _foreach_sigmoid _foreach_sign _foreach_sin _foreach_sinh
_foreach_sqrt _foreach_sub _foreach_tan _foreach_tanh _foreach_trunc _foreach_zero _fused_adagrad
_fused_adam _fused_adamw _fused_dropout _fused_rms_norm _fused_rms_norm_backward _fused_sdp_choice
_fused_sgd _grid_sampler_2d_cpu_fallback _grid_sampler_2d_cpu_fallback_backward
_histogramdd_bin_edges _index_put_impl _indices _indices_copy _int_mm _log_softmax
_log_softmax_backward_data _logcumsumexp _masked_scale _masked_softmax _masked_softmax_backward
_native_batch_norm_legit _native_batch_norm_legit_no_training _new_zeros_with_same_feature_meta
_pad_circular _pdist_backward _pdist_forward _prelu_kernel _prelu_kernel_backward _reshape_alias
_reshape_alias_copy _reshape_copy _safe_softmax _scaled_dot_product_attention_math
_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention
_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu
_scaled_dot_product_flash_attention_for_cpu_backward
_scaled_dot_product_fused_attention_overrideable
_scaled_dot_product_fused_attention_overrideable_backward _scaled_mm _scaled_mm_v2
_size_if_not_equal _softmax _softmax_backward_data _stack _to_copy _transform_bias_rescale_qkv
_trilinear _unique _unique2 _unsafe_index _unsafe_index_put _unsafe_masked_index
_unsafe_masked_index_put_accumulate _unsafe_view _upsample_bicubic2d_aa
_upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
_upsample_lanczos2d_aa _upsample_lanczos2d_aa_backward _upsample_nearest_exact1d
_upsample_nearest_exact1d_backward _upsample_nearest_exact2d _upsample_nearest_exact2d_backward
_upsample_nearest_exact3d _upsample_nearest_exact3d_backward _weight_norm
_weight_norm_differentiable_backward _weight_norm_interface _weight_norm_interface_backward
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_avg_pool3d_backward
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d
adaptive_max_pool3d_backward affine_grid_generator affine_grid_generator_backward alias_copy
alpha_dropout as_strided as_strided_copy as_strided_scatter as_tensor atleast_1d atleast_2d
atleast_3d avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward bartlett_window
batch_norm batch_norm_backward batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits bitwise_and
bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window block_diag
broadcast_in_dim broadcast_shapes broadcast_tensors broadcast_to cartesian_prod ccol_indices
ccol_indices_copy chain_matmul channel_shuffle cholesky_inverse cholesky_solve clamp_max clamp_min
col_indices col_indices_copy collapse_view column_stack conj_physical constant_pad_nd
conv_depthwise3d conv_tbc conv_tbc_backward conv_transpose1d conv_transpose2d conv_transpose3d
convert_element_type convolution_backward convolution_backward_overrideable convolution_overrideable
copy_strided copy_to cosine_embedding_loss cosine_similarity count_nonzero cross_entropy_loss
crow_indices crow_indices_copy ctc_loss cummaxmin_backward cumprod_backward cumulative_trapezoid
dense_dim detach_copy diag_embed diagonal_backward diagonal_copy diagonal_scatter dist_backward
element_size elu_backward embedding_backward embedding_bag embedding_dense_backward embedding_renorm
empty_like empty_permuted empty_strided erf_inv expand_as expand_copy feature_alpha_dropout
feature_dropout float_power floor_divide fractional_max_pool2d fractional_max_pool2d_backward
fractional_max_pool3d fractional_max_pool3d_backward frobenius_norm full_like
fused_moving_avg_obs_fake_quant gather_backward gelu_backward glu_backward glu_backward_jvp glu_jvp
greater_equal grid_sampler grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d
grid_sampler_3d_backward group_norm hamming_window hann_window hardshrink_backward
hardsigmoid_backward hardswish_backward hardtanh_backward hash_tensor hinge_embedding_loss
huber_loss huber_loss_backward index_add index_copy index_fill index_put index_reduce index_select
index_select_backward indices_copy infinitely_differentiable_gelu_backward instance_norm int_repr
kaiser_window kl_div l1_loss layer_norm leaky_relu leaky_relu_backward less_equal lift_fresh
lift_fresh_copy linear_backward log_normal log_sigmoid log_sigmoid_backward log_sigmoid_forward
log_softmax logical_and logical_not logical_or logical_xor logit_backward lu_solve
margin_ranking_loss masked_fill masked_scatter masked_scatter_backward masked_select
masked_select_backward matmul_backward matrix_H matrix_exp matrix_exp_backward matrix_power
max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_backward max_pool2d_with_indices
max_pool2d_with_indices_backward max_pool3d max_pool3d_with_indices max_pool3d_with_indices_backward
max_unpool2d max_unpool3d maximum_value minimum_value mish_backward mse_loss mse_loss_backward
multi_margin_loss multi_margin_loss_backward multilabel_margin_loss multilabel_margin_loss_backward
multilabel_margin_loss_forward narrow_copy native_batch_norm native_batch_norm_backward
native_channel_shuffle native_dropout native_dropout_backward native_group_norm
native_group_norm_backward native_layer_norm native_layer_norm_backward native_norm new_empty
new_empty_strided new_full new_ones new_zeros nll_loss nll_loss2d nll_loss2d_backward
nll_loss2d_forward nll_loss_backward nll_loss_forward nll_loss_nd nonzero_static norm_except_dim
not_equal nuclear_norm one_hot ones_like pad_sequence pairwise_distance permute_copy pixel_shuffle
pixel_unshuffle poisson_nll_loss rand_like randint_like randn_like reflection_pad1d
reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d
reflection_pad3d_backward repeat_interleave replication_pad1d replication_pad1d_backward
replication_pad2d replication_pad2d_backward replication_pad3d replication_pad3d_backward reshape_as
resize_as resolve_conj resolve_neg rms_norm row_indices row_indices_copy row_stack scalar_tensor
scaled_dot_product_attention scatter_add scatter_reduce select_backward select_copy select_scatter
shift_left shift_right_arithmetic sigmoid_backward silu_backward slice_backward slice_copy
slice_inverse slice_scatter slow_conv3d slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d
slow_conv_transpose2d slow_conv_transpose3d smooth_l1_loss smooth_l1_loss_backward soft_margin_loss
soft_margin_loss_backward softplus_backward softshrink_backward special_airy_ai
special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_digamma special_entr special_erf special_erfc special_erfcx
special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc
special_gammaln special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e
special_i1 special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p
special_log_ndtr special_log_softmax special_logit special_logsumexp special_multigammaln
special_ndtr special_ndtri special_polygamma special_psi special_round
special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_sinc
special_softmax special_xlog1py special_xlogy special_zeta split_copy split_dim split_with_sizes
split_with_sizes_copy squeeze_copy std_mean storage_offset t_copy take_along_dim tanh_backward
tensor_split thnn_conv2d threshold_backward trace_backward transpose_copy triangular_solve
tril_indices triplet_margin_loss triu_indices true_divide type_as unbind_copy unfold_backward
unfold_copy unique_consecutive unique_dim unique_dim_consecutive unsafe_chunk unsafe_split
unsafe_split_with_sizes unsqueeze_copy upsample_bicubic2d upsample_bicubic2d_backward
upsample_bilinear2d upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward
upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d upsample_nearest2d_backward
upsample_nearest3d upsample_nearest3d_backward upsample_trilinear3d upsample_trilinear3d_backward
value_selecting_reduction_backward values_copy var_mean view_as view_as_complex view_as_complex_copy
view_as_real view_as_real_copy view_copy view_of view_of_dtype xor_sum zeros_like
""".split()  # noqa: SIM905
)
"""Ops of ``aten`` and ``prims`` with an underscore in their name."""
_MOST_WORDS: Final = max(op.count("_") for op in _OPS) + 1
_MOST_UNKNOWN: Final = 4
"""Words of an op that PyTorch does not have."""
_UNSORTED: Final = 10
"""Cost of an op out of order; one that is not in the list costs 1 for each of several words."""


def is_generated(name: str) -> bool:
    """Return whether TorchInductor generated a kernel of this name."""
    return _FUSED.match(name) is not None


def source_ops(name: str) -> tuple[str, ...]:
    """Return ops that a generated kernel computes; empty: not generated, or not named after any."""
    found = _FUSED.match(name)
    return _divided(found[1]) if found is not None and found[1] else ()


def _divided(text: str) -> tuple[str, ...]:
    """The division with the fewest unknown and unsorted ops, and of these the one with fewest."""
    words = text.split("_")
    # Best division that ends at a word, by its last op: cost, number of ops, ops.
    best: list[dict[str, tuple[int, int, tuple[str, ...]]]] = [{} for _ in range(len(words) + 1)]
    best[0][""] = (0, 0, ())
    for start in range(len(words)):
        for stop in range(start + 1, min(start + _MOST_WORDS, len(words)) + 1):
            op = "_".join(words[start:stop])
            cost = _cost(op, stop - start)
            if cost is None:
                continue
            for last, (total, count, ops) in best[start].items():
                unsorted = _UNSORTED if op <= last else 0
                way = (total + cost + unsorted, count + 1, (*ops, op))
                if op not in best[stop] or way < best[stop][op]:
                    best[stop][op] = way
    return min(best[-1].values())[2] if best[-1] else (text,)


def _cost(op: str, num_words: int) -> int | None:
    """Return the cost of taking some words for one op, or None if they are none."""
    if op in _OPS or (num_words == 1 and op):
        return 0
    is_name = bool(op.strip("_")) and not op.endswith("_")
    return num_words if is_name and num_words <= _MOST_UNKNOWN else None
