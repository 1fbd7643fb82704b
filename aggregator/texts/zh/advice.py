"""What the detectors say."""

from __future__ import annotations

ADVICE: dict[str, str] = {
    "{count} ops were eligible to use tensor cores but none are using FP16": (
        "{count} 个算子可以使用 Tensor Core，但没有一个使用 FP16"
    ),
    "Try enabling AMP (Automatic Mixed Precision). For more information: "
    "https://developer.nvidia.com/automatic-mixed-precision": (
        "请尝试启用 AMP（自动混合精度）。更多信息：https://developer.nvidia.com/automatic-mixed-precision"
    ),
    "The dataloader uses {share:.1f}% of the aggregated run": (
        "数据加载占聚合运行时间的 {share:.1f}%"
    ),
    "Reduce the time spent on input: more workers, pinned memory, prefetching, or NVIDIA DALI. "
    "Learn more here: https://developer.nvidia.com/DALI": (
        "请减少输入所用的时间：增加工作进程、使用锁页内存、预取，或使用 NVIDIA DALI。"
        "了解更多：https://developer.nvidia.com/DALI"
    ),
    "No DALI ops detected": "未检测到 DALI 算子",
    "Consider using NVIDIA DALI, a library that is a high performance alternative to built-in "
    "data loaders and data iterators. Learn more here: https://developer.nvidia.com/DALI": (
        "请考虑使用 NVIDIA DALI，它可以高性能地替代内置的数据加载器和数据迭代器。"
        "了解更多：https://developer.nvidia.com/DALI"
    ),
    "Unable to split profile into training iterations: key op {name} not found": (
        "无法将性能分析划分为训练迭代：找不到关键算子 {name}"
    ),
    "Specify key op by setting the --key_op argument": "请用参数 --key_op 指定关键算子",
    "CPU has the highest (non-GPU) usage at {share:.1f}%. Consider swapping ops that are running "
    "on the CPU for equivalent GPU ops": (
        "CPU 的（非 GPU）占用最高，为 {share:.1f}%。请考虑把在 CPU 上运行的算子换成等效的 GPU 算子"
    ),
    "Dataloader has the highest (non-GPU) usage at {share:.1f}%. Investigate the dataloader "
    "pipeline as this often indicates too much time is being spent there": (
        "数据加载的（非 GPU）占用最高，为 {share:.1f}%。请检查数据加载流水线，"
        "这通常说明在那里花费了过多时间"
    ),
    "I/O has the highest (non-GPU) usage at {share:.1f}%. Investigate reading and writing of files "
    "during the iterations": (
        "I/O 的（非 GPU）占用最高，为 {share:.1f}%。请检查迭代期间的文件读写"
    ),
    "Other has the highest (non-GPU) usage at {share:.1f}%. Investigate the dataloader pipeline as "
    "this often indicates too much time is being spent there": (
        "其他部分的（非 GPU）占用最高，为 {share:.1f}%。请检查数据加载流水线，"
        "这通常说明在那里花费了过多时间"
    ),
    "The following GPU device IDs are not being used: {names}": (
        "以下设备 ID 的 GPU 未被使用：{names}"
    ),
    "Limit the GPUs that the application can see (CUDA_VISIBLE_DEVICES, or the options of docker "
    "or of the framework), or spread the work over all of them": (
        "请限制应用程序可见的 GPU（CUDA_VISIBLE_DEVICES，或 docker、框架的选项），"
        "或将工作分配到所有 GPU"
    ),
    "The GPU is underutilized: Only {utilization:.1f}% of the profiled time is spent on GPU kernel "
    "operations": "GPU 利用不足：只有 {utilization:.1f}% 的分析时间用于 GPU 内核运算",
    "Rerun dlprof with --database and --iter_start={start} --iter_stop={stop}, a range in which "
    "the iterations are alike": (
        "请用 --database 和 --iter_start={start} --iter_stop={stop} 重新运行 dlprof，"
        "该范围内的迭代长短相近"
    ),
    "No range of like iterations was found. Profile more iterations, or name another key node with "
    "--key_node": "未找到长短相近的迭代范围。请分析更多迭代，或用 --key_node 指定其他关键节点",
    "The iteration range {first} to {last} contains a lot of variation between iterations": (
        "迭代范围 {first} 到 {last} 内各次迭代的差异很大"
    ),
    "{count} ops were eligible to use tensor cores but are not using them because of their tensor "
    "shapes or data types": (
        "{count} 个算子可以使用 Tensor Core，但因张量形状或数据类型而没有使用"
    ),
    "Make batch size, channels and layer widths multiples of 8. For more information: "
    "https://docs.nvidia.com/deeplearning/performance/index.html": (
        "请让批大小、通道数和层宽度为 8 的倍数。"
        "更多信息：https://docs.nvidia.com/deeplearning/performance/index.html"
    ),
    "No XLA ops were detected: fusion is disabled": "未检测到 XLA 算子：融合已关闭",
    "Try enabling XLA, which fuses ops. For more information: https://www.tensorflow.org/xla": (
        "请尝试启用可融合算子的 XLA。更多信息：https://www.tensorflow.org/xla"
    ),
    "cuDNN benchmark is disabled and the model has convolution ops": (
        "cuDNN benchmark 已关闭，而模型含有卷积算子"
    ),
    "Set torch.backends.cudnn.benchmark = True: cuDNN then searches for the fastest convolution "
    "algorithms. It pays where the input sizes do not change": (
        "请设置 torch.backends.cudnn.benchmark = True：cuDNN 会搜索最快的卷积算法。"
        "输入大小不变时有效"
    ),
    "The following PyTorch APIs, which slow down a run, are enabled: {names}": (
        "以下会拖慢运行的 PyTorch API 已启用：{names}"
    ),
    "Disable them when not debugging": "不调试时请关闭它们",
    "The following GPU device IDs are used significantly less than the others: {names} "
    "({least:.1f}% of the time against {most:.1f}%)": (
        "以下设备 ID 的 GPU 的使用明显少于其他 GPU：{names}"
        "（时间占比 {least:.1f}%，最高为 {most:.1f}%）"
    ),
    "Balance the work: give every GPU as many samples of like size, and the same layers": (
        "请均衡工作量：让每个 GPU 处理同样多、大小相近的样本和相同的层"
    ),
    "GPU memory is underutilized: Only {share:.0f}% of GPU memory is used": (
        "GPU 显存利用不足：只使用了 {share:.0f}% 的显存"
    ),
    "Try increasing batch size by {factor}x to increase data throughput": (
        "请尝试把批大小增加到 {factor} 倍，以提高数据吞吐量"
    ),
    "emit_nvtx was not used: the ops of the backward pass cannot be told apart": (
        "未使用 emit_nvtx：无法区分反向传播的各个算子"
    ),
    "Wrap the training loop: with torch.autograd.profiler.emit_nvtx(). The markers that dlprof "
    "puts in by itself do so": (
        "请包住训练循环：with torch.autograd.profiler.emit_nvtx()。dlprof 自动加入的标记会这样做"
    ),
}
