"""Small exports with something of everything that a program can write into one."""

from __future__ import annotations

import json

from tests.builders import Thread, Trace

_CONV_SIZES = "[[8, 3, 4, 4], [6, 3, 3, 3], [6], [], [], [], []]"
_UUID = "691f54c1-06f1-2088-4355-2732a7269da4"


def small_export(steps: int = 8) -> Trace:
    """Two processes, two GPUs, forward and backward, copies, marks, a custom domain."""
    trace = Trace()
    trace.gpu(0)
    trace.gpu(1)
    for rank in range(2):
        thread = trace.thread(100 + rank)
        for step in range(steps):
            at = 10_000 * step
            thread.range(f"iteration {step}", at, at + 9_000)
            thread.range("load", at + 5, at + 90, domain=7 if rank else 0)
            thread.op("conv2d", at + 100, at + 800, seq=2 * step, sizes="[[8, 3, 4, 4]]")
            thread.launch("sgemm", at + 110, gpu=(at + 200, at + 900), device=rank)
            thread.launch("h884gemm", at + 300, gpu=(at + 900, at + 1_500), device=rank)
            thread.copy(at + 820, gpu=(at + 1_500, at + 1_600), device=rank)
            thread.backward("ConvolutionBackward0", at + 2_000, at + 2_900, seq=2 * step)
            thread.launch("dgrad", at + 2_010, gpu=(at + 3_000, at + 3_400), device=rank)
            thread.range("mark", at + 50, None, kind=34)
    return trace


def marked_export(rank: int = 0) -> Trace:
    """What the markers write: settings, memory, modules with parameters, sizes, collectives."""
    trace = Trace()
    trace.session(10**18 + 1_000 * rank, host=f"host{rank}")
    trace.gpu(0)
    trace.cuda_device(100 + rank, 0, 0)
    main = trace.thread(100 + rank)
    for marker_value in (
        {"model_config": {"framework": "PyTorch 2.11.0", "markers": "dlprof_nvtx"}},
        {"model_config": {"DataLoader": {"num_workers": 4, "pin_memory": True}}},
        {"model_config": {"cudnn_version": 91002, "optimizer": {"name": "SGD", "fused": False}}},
        {"gpu_memory": {"device": 0, "uuid": _UUID, "pid": 100, "peak_reserved_bytes": 1 << 30}},
    ):
        main.range(json.dumps(marker_value), 1, 1)
    for step in range(5):
        at = 10_000 * (step + 1)
        main.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, at + 50)
        _marked_layers(main, at, seq=3 * step)
        main.backward("AddmmBackward0", at + 3_000, at + 3_500, seq=3 * step + 1)
        main.launch("sgemm", at + 3_010, gpu=(at + 3_020, at + 3_400))
        main.backward("ConvolutionBackward0", at + 3_600, at + 4_000, seq=3 * step)
        main.launch("dgrad", at + 3_610, gpu=(at + 3_620, at + 3_900))
        main.op("nccl:all_reduce", at + 4_100, at + 4_300, sizes="[[238], [6]]")
        main.launch(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 4_110, gpu=(at + 4_200, at + 5_000)
        )
    return trace


def _marked_layers(main: Thread, at: int, seq: int) -> None:
    main.range("torch.nn: Net (Net)", at + 100, at + 2_000)
    conv = '{"stride":[1,1],"padding":[0,0],"dtype":"float16","call_site":"net.py:7"}'
    main.range(f"torch.nn: conv1 (Conv2d) {conv}", at + 110, at + 900)
    main.op("conv2d", at + 120, at + 800, seq=seq, sizes=_CONV_SIZES)
    main.launch("h884cudnn", at + 130, gpu=(at + 200, at + 700))
    main.range('torch.nn: pool (MaxPool2d) {"kernel_size":2,"stride":2}', at + 900, at + 1_000)
    main.op("max_pool2d", at + 910, at + 990, seq=seq + 2, sizes="[[8, 6, 2, 2], [], [], []]")
    main.launch("max_pool", at + 920, gpu=(at + 930, at + 980))
    main.range('torch.nn: fc (Linear) {"input_dtype":"float32"}', at + 1_000, at + 1_900)
    sizes = "[[8, 6], [10, 6], [10]]"
    main.op("linear", at + 1_010, at + 1_800, seq=seq + 1, sizes=sizes)
    main.launch("sgemm", at + 1_020, gpu=(at + 1_100, at + 1_500))


def dictionary_export() -> Trace:
    """The dictionary markers of DLProf's own package."""
    trace = Trace()
    trace.gpu(0)
    main = trace.thread()
    image = "{'name': '', 'type': 'tensor', 'shape': (8, 3, 4, 4), 'dtype': 'float16'}"
    weight = "{'name': '', 'type': 'tensor', 'shape': (6, 3, 3, 3), 'dtype': 'float16'}"
    stride = "{'name': 'stride', 'type': 'tuple', 'value': (1, 1)}"
    conv = (
        f"{{'mod': 'torch.nn.functional', 'op': 'conv2d', 'args': [{image}, {weight}, {stride}]}}"
    )
    place = "{'traceMarker': ['net.py:7', 'main.py:3'], 'funcStack': '/Net/<module>/forward(2)'}"
    for step in range(5):
        at = 10_000 * step
        main.range(place, at + 100, at + 2_000)
        main.range(conv, at + 110, at + 900)
        main.op("conv2d", at + 120, at + 800, seq=step)
        main.launch("h884cudnn", at + 130, gpu=(at + 200, at + 700))
        main.backward("ConvolutionBackward0", at + 3_000, at + 3_500, seq=step)
        main.launch("dgrad", at + 3_010, gpu=(at + 3_020, at + 3_400))
    return trace


def graph_export() -> Trace:
    """Nodes of a graph: NVIDIA's TensorFlow with details, and XLA."""
    trace = Trace()
    trace.gpu(0)
    main = trace.thread()
    for number, name in enumerate(("tensorflow-core", "TSL"), start=1):
        main.range(name, 0, None, domain=number, kind=75)
    argument = '{"name":"x","shape":[8,3,4,4]}'
    node = (
        f'{{"op":"Conv2D","name":"net/conv1/Conv2D","args":[{argument}],"attrs":{{"T":"float32"}}}}'
    )
    for step in range(5):
        at = 10_000 * step
        main.range("VariableV2: global_step", at + 10, at + 50, domain=1)
        main.launch("step", at + 20)
        main.range(node, at + 100, at + 900, domain=1)
        main.launch("h884cudnn", at + 130, gpu=(at + 200, at + 700))
        main.range("MatMul: net/fc/MatMul", at + 1_000, at + 1_900, domain=1)
        main.launch("sgemm", at + 1_020, gpu=(at + 1_100, at + 1_500))
        module = "XlaModule:#prefix=jit(f),hlo_module=jit_step,program_id=12#"
        main.range(module, at + 2_000, at + 3_000, domain=2)
        thunk = "Thunk:#name=jit(step)/jvp(Net)/Conv_0,hlo_op=fusion.1,unique_hlo_op_id=7#"
        main.range(thunk, at + 2_100, at + 2_900, domain=2)
        main.launch("fusion_1", at + 2_110)
    return trace
