"""Notes on a profile, and why a choice was made or a value is unknown."""

from __future__ import annotations

NOTES: dict[str, str] = {
    # --- how it was read
    "{title} ranges found": "找到 {title} 范围",
    "no framework ranges found": "没有找到框架范围",
    "as asked": "按要求",
    "as asked; no op carries a range": "按要求；没有算子带有范围",
    "{why}; {evidence}": "{why}；{evidence}",
    "Mode {mode} is {evidence}.": "模式 {mode} {evidence}。",
    "unverified: no public capture of TensorFlow was at hand, its ranges are read as NVIDIA's "
    "TensorFlow source writes them": (
        "未经验证：手头没有公开的 TensorFlow 捕获，按 NVIDIA TensorFlow 源代码的写法读取其范围"
    ),
    "unverified: no public capture of TensorRT was at hand, its ranges are read as public listings "
    "show them": "未经验证：手头没有公开的 TensorRT 捕获，按公开列表所示读取其范围",
    "as in the database of DLProf {version}": "与 DLProf {version} 的数据库相同",
    "events of the trace are of kinds that are not used: {kinds}.": (
        "跟踪文件中的事件属于未使用的类别：{kinds}。"
    ),
    "events of the trace have no time or no duration; they were left out.": (
        "跟踪文件中的事件没有时间或时长；已忽略。"
    ),
    "API calls have no work on a GPU in the trace: its activities lacked CUDA, or CUPTI "
    "did not record; every time on the GPU is unknown.": (
        "跟踪中的 API 调用没有对应的 GPU 工作：采集的 activities 缺少 CUDA，或 CUPTI 没有记录；"
        "GPU 上的各项时间均未知。"
    ),
    "events of the trace end before they begin; they were given no length.": (
        "跟踪文件中的事件结束早于开始；其长度记为零。"
    ),
    # --- the key node
    "DLProf found no iterations": "DLProf 没有找到迭代",
    "given as Op ID": "以算子 ID 给出",
    "given as op name": "以算子名称给出",
    "given as range name": "以范围名称给出",
    "the data loader hands out a batch once per iteration": "数据加载器每次迭代给出一个批次",
    "it begins every range '{name}'": "每个范围 '{name}' 都以它开始",
    "clearing the gradients begins every iteration": "每次迭代以清除梯度开始",
    "the program that ran most often marks the iterations": "运行次数最多的程序标记各次迭代",
    "numbered ranges mark the iterations": "带编号的范围标记各次迭代",
    "the optimizer steps once per iteration": "优化器每次迭代执行一步",
    "no data loader, numbered range or optimizer step was found": (
        "没有找到数据加载器、带编号的范围或优化器步骤"
    ),
    "'{name}' is read once per iteration": "每次迭代读取一次 '{name}'",
    # --- what a capture does not tell
    "The capture does not tell; dlprof_nvtx records it.": "捕获中没有记录；dlprof_nvtx 会记录它。",
    "The capture holds no reading of the GPU's memory; a run under dlprof records it.": (
        "捕获中没有 GPU 显存的读数；在 dlprof 下运行会记录它。"
    ),
    "The samples of the GPU's memory cannot be read.": "无法读取 GPU 显存的采样。",
    "NVML could not be read during the capture: {reason}.": "捕获期间无法读取 NVML：{reason}。",
    "kernels of the backward pass carry no range, because emit_nvtx was not on: they are one op "
    "'backward'.": (
        "个反向传播的内核没有范围，因为没有开启 emit_nvtx：它们合为一个算子 'backward'。"
    ),
    # --- what was repaired or left out
    "kernels, copies, sets or graphs have no API call in the profile; they count as launched when "
    "they started and belong to unassociated ops.": (
        "个内核、复制、置值或图在性能分析中没有 API 调用；按其开始时启动计算，归入未关联的算子。"
    ),
    "events belong to ops that the database lacks.": "个事件所属的算子不在数据库中。",
    "ops of custom NVTX domains were left out; the default domain holds all work.": (
        "个自定义 NVTX 域的算子被略去；默认域包含全部工作。"
    ),
    "Nsight Systems failed to read parts of its own recording: kernels, calls and ranges are"
    " missing ({collected} of {produced} CUDA events are there). Record a shorter part of the"
    " run, after compilation (--delay), or use another version of Nsight Systems.": (
        "Nsight Systems 未能读取自己的部分记录：缺少内核、调用和范围（{produced} 个 CUDA 事件中只有"
        " {collected} 个）。请在编译之后录制较短的一段（--delay），"
        "或使用其他版本的 Nsight Systems。"
    ),
    "NVTX ranges were still open at the end of the capture; they end with it.": (
        "个 NVTX 范围在捕获结束时仍未关闭；它们随捕获结束。"
    ),
    "CUDA graphs were recorded as a whole; their kernels are not in the profile (nsys profile "
    "--cuda-graph-trace=node records them).": (
        "个 CUDA 图被作为整体记录；其中的内核不在性能分析中"
        "（nsys profile --cuda-graph-trace=node 会记录它们）。"
    ),
    "events end before they start; they are counted with no duration.": (
        "个事件的结束早于开始；计数但不计时长。"
    ),
    "events have times outside every session; they are counted with no duration.": (
        "个事件的时间不在任何会话内；计数但不计时长。"
    ),
    "kernels, copies or sets tell no GPU; they count for the first one.": (
        "个内核、复制或置值没有说明 GPU；计入第一个 GPU。"
    ),
    # --- why a value is unknown
    "Simple mode: the profile has no framework ranges, or they were not asked for.": (
        "简单模式：性能分析中没有框架范围，或没有要求读取它们。"
    ),
    "This database does not hold it: it was written by an older or another DLProf.": (
        "此数据库不含该值：它由较旧的或其他的 DLProf 写成。"
    ),
    "I/O is not told apart: the calls that read and write files are not taken from a profile.": (
        "I/O 未单独列出：不从性能分析中读取读写文件的调用。"
    ),
    "The profile holds no ranges of a data loader.": "性能分析中没有数据加载器的范围。",
    "The profile holds no ops: which kernels could use Tensor Cores is not known.": (
        "性能分析中没有算子：无法得知哪些内核可以使用 Tensor Core。"
    ),
    "Nothing was aggregated for this domain.": "此域没有聚合任何内容。",
    "The profile does not say.": "性能分析没有说明。",
    # --- what ops should cost
    "the sizes of its arguments were not recorded": "没有记录其参数的大小",
    "the kernels' names do not tell the element type": "内核名称没有说明元素类型",
    "the sizes of its output were not recorded": "没有记录其输出的大小",
    "there is no formula for it": "没有适用于它的公式",
    "its operations depend on the values": "其运算次数取决于数值",
    "the kernels of a CUDA graph were not recorded": "没有记录 CUDA 图中的内核",
    "its tensors fit the cache, which is faster than the memory": (
        "其张量可放入缓存，而缓存比显存快"
    ),
    "its kernels need fewer operations than were counted: Winograd, Fourier or a mask": (
        "其内核所需的运算少于所计的运算：Winograd、傅里叶或掩码"
    ),
    "its copies went over a faster link than the table of peaks has": (
        "其复制所经的链路快于峰值表中的链路"
    ),
    "no range around the call tells the size of its tensors": ("调用外没有范围说明其张量的大小"),
    "neither the name of the kernel nor a range tells the data type": (
        "内核名称和范围都没有说明数据类型"
    ),
    "it moves data between GPUs": "它在 GPU 之间传输数据",
    "The GPU peak '{word}' is not understood.": "无法理解 GPU 峰值 '{word}'。",
    "Give {example}; names: {names}; TFLOP/s, bandwidth and link in GB/s.": (
        "请给出 {example}；名称：{names}；单位 TFLOP/s，bandwidth 和 link 为 GB/s。"
    ),
    # --- jobs
    "Cancelled.": "已取消。",
    "Cancelling.": "正在取消。",
    "This aggregation was there already.": "此聚合已经存在。",
}
