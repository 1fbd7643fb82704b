"""Names and labels in the figures."""

from __future__ import annotations

FIGURES: dict[str, str] = {
    "No GPU in this profile": "此性能分析中没有 GPU",
    "GPU utilization": "GPU 利用率",
    "GPU utilization (%)": "GPU 利用率 (%)",
    "No iterations here": "这里没有迭代",
    "Iteration": "迭代",
    "Duration ({unit})": "时长 ({unit})",
    "{name}: %{{customdata[3]:,}} ns<extra></extra>": (
        "{name}：%{{customdata[3]:,}} ns<extra></extra>"
    ),
    "Share of the wall time (%)": "占实际运行时间的比例 (%)",
    "{name}<br>{value:.1f} %": "{name}<br>{value:.1f} %",
    "{name}: %{{x}} %<extra></extra>": "{name}：%{{x}} %<extra></extra>",
    "unknown": "未知",
    "No values in this profile": "此性能分析中没有数值",
    "Using GPU": "正在使用 GPU",
    "Idle GPU": "空闲 GPU",
    "Memory Kernels": "内存内核",
    "All Other Kernels": "所有其他内核",
    "Using Tensor Cores": "使用 Tensor Core",
    "Not Using Tensor Cores": "未使用 Tensor Core",
    "Memory": "内存",
    "Dataloader": "数据加载",
    "I/O": "I/O",
    "CPU": "CPU",
    "Other": "其他",
    "Outside Aggregation": "聚合之外",
    "Bound by computing": "受计算限制",
    "Bound by memory": "受内存限制",
    "Bound by the bus": "受总线限制",
    "Operations per byte": "每字节运算数",
    "TFLOP/s": "TFLOP/s",
    "No op with known operations and bytes": "没有已知运算数和字节数的算子",
    "%{customdata[0]}<br>%{y:.3g} TFLOP/s at %{x:.3g} per byte<br>"
    "%{customdata[2]:.1f} % of what the GPU could do<br>"
    "%{customdata[3]:,} of %{customdata[1]:,} ns left to win<extra></extra>": (
        "%{customdata[0]}<br>%{y:.3g} TFLOP/s，每字节 %{x:.3g}<br>"
        "GPU 能力的 %{customdata[2]:.1f} %<br>"
        "%{customdata[1]:,} ns 中可节省 %{customdata[3]:,} ns<extra></extra>"
    ),
    "Efficiency of ops": "算子效率",
    "Efficiency of op types": "算子类型效率",
    "Efficiency of groups": "组效率",
    "Efficiency of iterations": "迭代效率",
    "What the op was counted by": "算子的计数依据",
    "Peak rates of the GPU": "GPU 峰值速率",
}
