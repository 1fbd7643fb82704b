"""Operations of PyTorch's own calls beside ``torch.utils.flop_counter``, an independent count.

The operators run on the meta device: sizes are those of real models and nothing is computed. A
recording dispatch mode takes down the sizes of every operator as ``emit_nvtx`` would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, flop_registry  # noqa: E402

from aggregator.costs.formulas.call import OpCall  # noqa: E402
from aggregator.costs.formulas.output_sizes import output_sizes  # noqa: E402
from aggregator.costs.formulas.registry import NEEDS_OUTPUT, count, is_counted  # noqa: E402


class Recorder(TorchDispatchMode):
    """Sums our count up over all operators called."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0
        self.calls: list[OpCall] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.name().split("::")[1].split(".")[0]
        shapes: list[tuple[int, ...]] = []
        for arg in args:
            leaves = tree_leaves(arg) if isinstance(arg, list | tuple) else [arg]
            shapes += [
                tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else () for leaf in leaves
            ]
        first = result[0] if isinstance(result, tuple | list) else result
        output = tuple(first.shape) if name in NEEDS_OUTPUT else None
        one = name == "convolution_backward" and sum(args[-1][:2]) == 1
        if is_counted(name):
            call = OpCall(name, tuple(shapes), 4.0, 4.0, output, one_gradient=one)
            cost = count(call)
            self.calls.append(call)
            if cost.is_matrix:
                assert cost.flops is not None
                self.flops += cost.flops
        return result


def both(step: Callable[[], Any]) -> tuple[int, int]:
    """Our operations of a step and PyTorch's."""
    recorder, counter = Recorder(), FlopCounterMode(display=False)
    with counter:
        step()
    with recorder:
        step()
    return recorder.flops, counter.get_total_flops()


def meta(*sizes: int, grad: bool = True) -> Any:
    return torch.empty(*sizes, device="meta", requires_grad=grad)


CASES: dict[str, Callable[[], Any]] = {
    "mm": lambda: (meta(31, 64) @ meta(64, 17)).sum().backward(),
    "bmm": lambda: torch.bmm(meta(5, 31, 64), meta(5, 64, 17)).sum().backward(),
    "baddbmm": lambda: torch.baddbmm(meta(5, 31, 17), meta(5, 31, 64), meta(5, 64, 17)),
    "matmul": lambda: (meta(2, 3, 31, 64) @ meta(64, 17)).sum().backward(),
    "linear": lambda: (
        torch.nn.functional.linear(meta(4, 31, 64), meta(17, 64), meta(17)).sum().backward()
    ),
    "einsum": lambda: torch.einsum("bik,bkj->bij", meta(3, 8, 9), meta(3, 9, 10)).sum().backward(),
    "conv1d": lambda: (
        torch.nn.functional.conv1d(meta(2, 6, 50), meta(8, 6, 3), padding=1).sum().backward()
    ),
    "conv2d": lambda: (
        torch.nn.functional.conv2d(meta(2, 6, 32, 30), meta(8, 6, 3, 5), stride=2).sum().backward()
    ),
    "conv2d, image without gradient": lambda: (
        torch.nn.functional.conv2d(meta(2, 3, 32, 30, grad=False), meta(8, 3, 3, 3))
        .sum()
        .backward()
    ),
    "conv3d": lambda: (
        torch.nn.functional.conv3d(meta(2, 4, 9, 10, 11), meta(8, 4, 3, 3, 3)).sum().backward()
    ),
    "conv_transpose2d": lambda: (
        torch.nn.functional.conv_transpose2d(meta(2, 12, 8, 8), meta(12, 5, 4, 4), stride=2)
        .sum()
        .backward()
    ),
    "conv_transpose2d, as many channels": lambda: (
        torch.nn.functional.conv_transpose2d(meta(2, 6, 8, 8), meta(6, 6, 4, 4), stride=2)
        .sum()
        .backward()
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_matrix_operations_are_those_of_the_flop_counter(name: str) -> None:
    ours, theirs = both(CASES[name])
    assert ours == theirs > 0


def test_groups_divide_all_three_convolutions() -> None:
    # GIVEN 4 groups of 3 inputs and 2 outputs each
    def step() -> None:
        out = torch.nn.functional.conv2d(meta(2, 12, 32, 30), meta(8, 3, 3, 3), groups=4)
        out.sum().backward()

    ours, theirs = both(step)
    # THEN forward and both gradients are N K P Q (C/g) R S multiplications each
    one = 2 * 2 * 8 * 30 * 28 * 3 * 9
    assert ours == 3 * one
    # AND PyTorch's counter takes the gradient of the weight for one without groups
    assert theirs == 2 * one + 4 * one


class Bottleneck(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.convs = torch.nn.Sequential(
            torch.nn.Conv2d(inputs, width, 1, bias=False),
            torch.nn.BatchNorm2d(width),
            torch.nn.ReLU(),
            torch.nn.Conv2d(width, width, 3, stride, 1, bias=False),
            torch.nn.BatchNorm2d(width),
            torch.nn.ReLU(),
            torch.nn.Conv2d(width, outputs, 1, bias=False),
            torch.nn.BatchNorm2d(outputs),
        )
        self.shortcut = (
            torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            if stride != 1 or inputs != outputs
            else torch.nn.Identity()
        )

    def forward(self, x: Any) -> Any:
        return torch.relu(self.convs(x) + self.shortcut(x))


def resnet50() -> Any:
    """Same convolutions as torchvision's."""
    layers: list[Any] = [torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    head = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(2048, 1000))
    return torch.nn.Sequential(*layers, *head)


RESNET50_STEP = 777_570_484_224
"""One training step of ResNet-50 on 32 images of 224 x 224."""
BERT_LINEAR, BERT_HEADS, BERT_BATCH, BERT_LENGTH = 1_338_966_540_288, 12, 16, 128


def test_a_step_of_resnet50_is_counted_as_pytorch_counts_it() -> None:
    with torch.device("meta"):
        model, images = resnet50(), torch.empty(32, 3, 224, 224)
    assert both(lambda: model(images).sum().backward()) == (RESNET50_STEP, RESNET50_STEP)


def attention_flops(sizes: tuple[int, ...], kind: str) -> tuple[int, int]:
    """PyTorch's own count of a forward and a backward call."""
    aten = torch.ops.aten
    forward = flop_registry[getattr(aten, f"_scaled_dot_product_{kind}_attention")]
    backward = flop_registry[getattr(aten, f"_scaled_dot_product_{kind}_attention_backward")]
    query, grad = meta(*sizes), meta(*sizes)
    return (
        forward(query, query, query, out_val=(grad,)),
        backward(grad, query, query, query, out_val=(query, query, query)),
    )


@pytest.mark.parametrize("kind", ["flash", "efficient", "cudnn"])
def test_attention_is_counted_as_pytorch_counts_it(kind: str) -> None:
    sizes = (BERT_BATCH, BERT_HEADS, BERT_LENGTH, 64)
    name = f"_scaled_dot_product_{kind}_attention"
    forward = count(OpCall(name, (sizes,) * 3, 2.0, 2.0))
    backward = count(OpCall(f"{name}_backward", (sizes,) * 5, 2.0, 2.0))
    assert (forward.flops, backward.flops) == attention_flops(sizes, kind)
    assert forward.num_bytes == 4 * 2 * math.prod(sizes)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_a_selection_moves_as_much_as_its_output_has(dim: int) -> None:
    # GIVEN PyTorch's own output of a selection along each dimension
    image = torch.empty(8, 32, 100, device="meta")
    index = torch.empty(5, dtype=torch.int64, device="meta")
    output = torch.index_select(image, dim, index)
    shapes = (tuple(image.shape), (), tuple(index.shape))
    # WHEN the dimension is known
    found = output_sizes("index_select", shapes, {"dim": dim})
    assert found == tuple(output.shape)
    # THEN it is read and written once, with the indices
    cost = count(OpCall("index_select", shapes, 4.0, 4.0, found))
    assert (cost.flops, cost.num_bytes) == (0, 2 * 4 * output.numel() + 8 * 5)
    # AND without it the bytes are unknown, but for a tensor that is as long each way
    assert count(OpCall("index_select", shapes, 4.0, 4.0)).num_bytes is None
    assert output_sizes("index_select", shapes, {}) is None
    square = count(OpCall("index_select", ((7, 7), (), (5,)), 4.0, 4.0))
    assert square.num_bytes == 2 * 4 * 35 + 8 * 5


def test_recurrent_layers_count_every_weight_once_per_step() -> None:
    # GIVEN two layers, both directions: input 24, hidden 16; 5 steps of 3 sequences
    weights = [(64, 24), (64, 16), (64, 24), (64, 16), (64, 32), (64, 16), (64, 32), (64, 16)]
    shapes = ((5, 3, 24), *weights, (), (4, 3, 16), (4, 3, 16))
    # THEN each is a product of 15 rows, as PyTorch's LSTM on the CPU computes it
    expected = sum(2 * 15 * rows * columns for rows, columns in weights)
    assert count(OpCall("_cudnn_rnn", shapes, 4.0, 4.0)).flops == expected
    assert count(OpCall("_cudnn_rnn_backward", shapes, 4.0, 4.0)).flops == 2 * expected
    lstm = torch.nn.LSTM(24, 16, num_layers=2, bidirectional=True)
    counter = FlopCounterMode(display=False)
    with counter:
        lstm(torch.zeros(5, 3, 24))
    assert counter.get_total_flops() in (0, expected)  # 0: computed by one fused operator
