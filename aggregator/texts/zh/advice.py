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
}
