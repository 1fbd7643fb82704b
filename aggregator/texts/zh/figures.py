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
}
