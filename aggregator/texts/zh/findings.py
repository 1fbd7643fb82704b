"""What our own advice says."""

from __future__ import annotations

FINDINGS: dict[str, str] = {
    "No advice can be given: the aggregated range holds no loop of at least two like steps": (
        "无法给出建议：聚合范围内没有至少两个相似步骤的循环"
    ),
    "A key node that marks the steps (--key_node), and a range of several of them behind "
    "the warm-up": ("需要能标记步骤的关键节点（--key_node），以及预热之后包含若干步骤的范围"),
    "Whether a larger batch fits cannot be told: the GPU's memory was not read": (
        "无法判断更大的批是否放得下：没有读取 GPU 的显存"
    ),
    "A capture made by dlprof, which reads it through NVML": (
        "由 dlprof 进行的采集，它会通过 NVML 读取显存"
    ),
    "The GPU is busy {busy:.0f}% of the step and {share:.0f}% of its memory is used: the "
    "batch is too small for it": (
        "GPU 在步骤中只忙碌 {busy:.0f}%，显存使用了 {share:.0f}%：批对它来说太小"
    ),
    "Try a batch {factor} times as large, and adapt the learning rate": (
        "请尝试把批增大到 {factor} 倍，并相应调整学习率"
    ),
    "Time per sample: the waiting for launches is shared by {factor} times as many, the "
    "busy time grows with them": (
        "按每个样本的时间计算：等待启动的时间由 {factor} 倍的样本分摊，忙碌时间随样本增长"
    ),
    "A run with the larger batch tells whether it fits and converges": (
        "用更大的批运行一次即可知道是否放得下、能否收敛"
    ),
    "Whether copies used pinned memory was not recorded": ("没有记录复制是否使用锁页内存"),
    "An export of Nsight Systems that has srcKind and dstKind of copies": (
        "含有复制的 srcKind 和 dstKind 的 Nsight Systems 导出文件"
    ),
    "Copies from or to pageable memory take {share:.0f}% of the step at {speed:.1f} GB/s, "
    "while no kernel runs": (
        "与可分页内存之间的复制占步骤的 {share:.0f}%，速度为 {speed:.1f} GB/s，期间没有内核运行"
    ),
    "Pin the memory: DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, "
    "non_blocking=True)": (
        "请锁页内存：DataLoader(pin_memory=True) 或 tensor.pin_memory()，然后 .to(device, non"
        "_blocking=True)"
    ),
    "The part of each copy of 1 MiB or more in which no kernel ran, less what the same "
    "bytes take from pinned memory at {speed:.0f} GB/s": (
        "每次 1 MiB 以上的复制中没有内核运行的部分，减去同样字节以 {speed:.0f} GB/s 从锁页内"
        "存复制所需的时间"
    ),
    "Copies between host and GPU take {share:.0f}% of the step while no kernel runs": (
        "主机与 GPU 之间的复制占步骤的 {share:.0f}%，期间没有内核运行"
    ),
    "Copy the next batch while this one computes: on a stream of its own "
    "(torch.cuda.Stream, record_stream), from pinned memory with non_blocking=True": (
        "请在计算当前批时复制下一批：使用单独的流（torch.cuda.Stream、record_stream），从锁页"
        "内存以 non_blocking=True 复制"
    ),
    "The part of each copy of 1 MiB or more in which no kernel ran; a copy on another "
    "stream hides behind the kernels of the step before": (
        "每次 1 MiB 以上的复制中没有内核运行的部分；在另一个流上的复制可以隐藏在上一步的内核之后"
    ),
    "Communication between GPUs takes {share:.0f}% of the step while no kernel computes": (
        "GPU 之间的通信占步骤的 {share:.0f}%，期间没有计算内核运行"
    ),
    "Overlap it with the backward pass (DistributedDataParallel with buckets that fit: "
    "bucket_cap_mb, gradient_as_bucket_view), send less (16-bit gradients), or accumulate "
    "gradients over several batches with no_sync()": (
        "请让它与反向传播重叠（DistributedDataParallel 并选择合适的桶：bucket_cap_mb、gradien"
        "t_as_bucket_view）、减少传输量（16 位梯度），或用 no_sync() 在多个批上累积梯度"
    ),
    "Time in which kernels of collectives ran and no other kernel did, all of which "
    "overlapping could hide. Waiting for a slower rank is part of it, and stays": (
        "只有集合通信内核运行而没有其他内核运行的时间，重叠可以全部隐藏。其中等待较慢 rank 的"
        "部分会保留"
    ),
    "Time in which kernels of collectives ran and no other kernel did, all of which "
    "overlapping could hide. In collectives the ranks wait {waiting:.1f}% of the step for each "
    "other, {kept:.1f}% of it for rank {rank}: only equal work wins that": (
        "只有集合通信内核运行而没有其他内核运行的时间，重叠可以全部隐藏。各 rank 在集合通信中"
        "互相等待的时间占每步的 {waiting:.1f}%，其中等待 rank {rank} 占 {kept:.1f}%："
        "只有均衡的工作量才能减少这部分"
    ),
    "The collectives of all ranks tell how much of it is waiting for others": (
        "所有 rank 的集合通信可以说明其中有多少是在等待其他 rank"
    ),
    "GPU {busiest} computes {ratio:.1f} times as long as the mean of all GPUs; the others "
    "wait for it": (
        "GPU {busiest} 的计算时间是所有 GPU 平均值的 {ratio:.1f} 倍；其他 GPU 在等待它"
    ),
    "Give every GPU as many samples of like size, and the same layers: equal batches, "
    "samples sorted by length, stages of equal cost": (
        "请让每个 GPU 处理同样多、大小相近的样本和相同的层：相等的批、按长度排序的样本、开销"
        "相等的阶段"
    ),
    "What the busiest GPU computes beyond the mean of all, collectives left out: with "
    "equal work the step is that much shorter": (
        "最忙的 GPU 超出平均值的计算时间，不含集合通信：工作均等时步骤会缩短这么多"
    ),
    "GPUs that the application can see run nothing: {names}": (
        "应用程序可见的以下 GPU 没有运行任何工作：{names}"
    ),
    "Spread the work over them (torchrun, DistributedDataParallel), or leave them to "
    "others (CUDA_VISIBLE_DEVICES)": (
        "请把工作分配给它们（torchrun、DistributedDataParallel），或留给他人使用（CUDA_VISIBL"
        "E_DEVICES）"
    ),
    "How well the training scales over more GPUs is not in this profile": (
        "此性能分析不含训练在更多 GPU 上的扩展情况"
    ),
    "A run on all GPUs tells what they win": ("在所有 GPU 上运行一次即可知道收益"),
    "Whether the GPU has Tensor Cores cannot be told": ("无法判断 GPU 是否有 Tensor Core"),
    "An export of Nsight Systems that describes the GPUs": (
        "描述了 GPU 的 Nsight Systems 导出文件"
    ),
    "Matrix products take {share:.0f}% of the step and none of them runs in 16 bits": (
        "矩阵乘法占步骤的 {share:.0f}%，但没有一个以 16 位运行"
    ),
    "Use automatic mixed precision: torch.autocast('cuda', dtype=torch.bfloat16), or "
    "float16 with a GradScaler. Check that the model still converges": (
        "请使用自动混合精度：torch.autocast('cuda', dtype=torch.bfloat16)，或 float16 加 Grad"
        "Scaler。请检查模型仍能收敛"
    ),
    "FP32 products at a sixth of their time and TF32 ones at 1/1.8 of it, as far as the "
    "GPU sets the pace; the ratios of the peaks are 15 and 2. Other kernels gain too, for "
    "they move half the bytes": (
        "FP32 乘法按六分之一、TF32 乘法按 1/1.8 的时间计算，以 GPU 决定步调的部分为限；峰值之"
        "比为 15 和 2。其他内核也会受益，因为它们搬运的字节减半"
    ),
    "A training run in 16 bits tells whether accuracy stays": (
        "以 16 位训练一次即可知道精度是否保持"
    ),
    "The GPU stands still for {share:.0f}% of the step, more than 1 ms at a time, while "
    "the script does something else": (
        "GPU 在步骤的 {share:.0f}% 中停顿，每次超过 1 ms，而脚本在做其他事情"
    ),
    "See what runs before the ops listed: input without a DataLoader, logging, metrics, "
    "checkpoints. Move it to another thread or process, or do it more rarely": (
        "请查看所列算子之前运行的内容：不经 DataLoader 的输入、日志、指标、检查点。请移到其他"
        "线程或进程，或减少次数"
    ),
    "Gaps of more than 1 ms before work whose launch began when the GPU had run dry; those "
    "that a data loader's range fills by half are not counted": (
        "GPU 空闲后才开始启动的工作之前超过 1 ms 的间隙；一半以上由数据加载器范围占据的间隙不计"
    ),
    "Ranges of torch.profiler.record_function around the script's own parts, or a trace "
    "with_stack=True, tell what it does": (
        "围绕脚本自身各部分的 torch.profiler.record_function 范围，或 with_stack=True 的跟踪，可"
        "以说明它在做什么"
    ),
    "NVTX ranges around the script's own parts, or CPU samples (--nsys_opts='-t "
    "cuda,nvtx,osrt -s cpu'), tell what it does": (
        "脚本自身各部分的 NVTX 范围，或 CPU 采样（--nsys_opts='-t cuda,nvtx,osrt -s cpu'）可"
        "以说明它在做什么"
    ),
    "Give the DataLoader more workers (num_workers), a larger prefetch_factor, cheaper "
    "transforms or faster storage; NVIDIA DALI moves decoding to the GPU": (
        "请给 DataLoader 更多工作进程（num_workers）、更大的 prefetch_factor、更省的变换或更"
        "快的存储；NVIDIA DALI 可把解码移到 GPU"
    ),
    "The training process itself loads the data (num_workers=0). Set num_workers to some "
    "of the CPU's cores, pin_memory=True and persistent_workers=True": (
        "训练进程自己加载数据（num_workers=0）。请把 num_workers 设为若干 CPU 核心数，并设置 "
        "pin_memory=True 和 persistent_workers=True"
    ),
    "Whether the GPU waits for input cannot be told: no DataLoader was seen": (
        "无法判断 GPU 是否在等待输入：没有看到 DataLoader"
    ),
    "Ranges of a torch.utils.data.DataLoader, or record_function around the input": (
        "torch.utils.data.DataLoader 的范围，或围绕输入的 record_function"
    ),
    "Ranges of a torch.utils.data.DataLoader, or NVTX ranges around the input": (
        "torch.utils.data.DataLoader 的范围，或围绕输入的 NVTX 范围"
    ),
    "The GPU waits {share:.0f}% of the step for the data loader's next batch": (
        "GPU 在步骤的 {share:.0f}% 中等待数据加载器的下一批"
    ),
    "Time in which no GPU work ran while a range of the data loader was open; all of it is "
    "won once batches are ready in time": (
        "数据加载器的范围打开而没有 GPU 工作运行的时间；批及时就绪后可全部节省"
    ),
    "The GPU waits {share:.0f}% of the step for kernels to be launched: {count} kernels a "
    "step, one call each": (
        "GPU 在步骤的 {share:.0f}% 中等待内核启动：每步 {count} 个内核，每个一次调用"
    ),
    "Launch many kernels at once: CUDA graphs (torch.cuda.make_graphed_callables, or "
    "torch.compile with mode='reduce-overhead'), or fewer and larger kernels "
    "(torch.compile, larger batches)": (
        "请一次启动多个内核：CUDA 图（torch.cuda.make_graphed_callables，或 torch.compile 的 "
        "mode='reduce-overhead'），或使用更少更大的内核（torch.compile、更大的批）"
    ),
    "Gaps of up to 1 ms before a kernel whose launch began when the GPU had run dry, less "
    "1.3 us for each that a CUDA graph would keep. Tracing and markers slow launching "
    "down, so without them the share is smaller": (
        "GPU 空闲后才开始启动的内核之前不超过 1 ms 的间隙，每个减去 CUDA 图仍会保留的 1.3 us"
        "。跟踪和标记会拖慢启动，因此没有它们时占比更小"
    ),
    "A step time measured without the profiler tells how much of the waiting stays": (
        "不用性能分析器测量的步骤时间可以说明等待还剩多少"
    ),
    "{share:.0f}% of the kernel time turns tensors around for convolutions (NCHW to NHWC "
    "and back)": ("{share:.0f}% 的内核时间用于为卷积转换张量布局（NCHW 与 NHWC 互转）"),
    "Keep images channels last: model.to(memory_format=torch.channels_last), and the same "
    "for the input": (
        "请让图像保持 channels last：model.to(memory_format=torch.channels_last)，输入同样处理"
    ),
    "The time of these kernels, as far as the GPU sets the pace of the step: {ratio:.0f}% "
    "of the kernel time stood in a queue. Other kernels gain too": (
        "这些内核的时间，以 GPU 决定步调的部分为限：{ratio:.0f}% 的内核时间曾在队列中等待。其"
        "他内核也会受益"
    ),
    "Whether torch.backends.cudnn.benchmark is on was not recorded": (
        "没有记录 torch.backends.cudnn.benchmark 是否打开"
    ),
    "Markers that record the settings (dlprof_nvtx)": ("会记录设置的标记（dlprof_nvtx）"),
    "Convolutions take {share:.0f}% of the step, and cuDNN does not search for their "
    "fastest algorithms": ("卷积占步骤的 {share:.0f}%，而 cuDNN 没有搜索最快的算法"),
    "Set torch.backends.cudnn.benchmark = True where the input sizes do not change": (
        "输入大小不变时请设置 torch.backends.cudnn.benchmark = True"
    ),
    "A tenth off their time as far as the GPU sets the pace: a rule of thumb, it may be "
    "nothing or much more": (
        "按节省其十分之一的时间计算，以 GPU 决定步调的部分为限：这是经验值，可能没有，也可能多得多"
    ),
    "A run with the search on tells": ("打开搜索运行一次即可知道"),
    "Debugging aids of PyTorch are on: {names}. They slow the backward pass down": (
        "PyTorch 的调试功能已打开：{names}。它们会拖慢反向传播"
    ),
    "Switch them off in ordinary runs, torch.autograd.set_detect_anomaly(False) for one": (
        "正常运行时请关闭它们，例如 torch.autograd.set_detect_anomaly(False)"
    ),
    "What they cost does not show in a profile: they record stack traces and check every "
    "gradient, which waits for the GPU": (
        "它们的开销不会显示在性能分析中：它们记录调用栈并检查每个梯度，这会等待 GPU"
    ),
    "A run without them tells what they cost": ("关闭后运行一次即可知道开销"),
    "{count} of {total} iterations take more than 1.5 times as long as the median": (
        "{total} 次迭代中有 {count} 次超过中位数的 1.5 倍"
    ),
    "One iteration in {period} is slow: {count} of {total} take more than 1.5 times as "
    "long as the median": (
        "每 {period} 次迭代有一次较慢：{total} 次中有 {count} 次超过中位数的 1.5 倍"
    ),
    "See what these steps do besides: checkpoints, evaluation, logging, garbage "
    "collection, a data loader that starts anew. Do it more rarely or in the background": (
        "请查看这些步骤另外做了什么：检查点、评估、日志、垃圾回收、数据加载器重新开始。请减少"
        "次数或放到后台"
    ),
    "What these steps take beyond the median step of {median:.1f} ms, over the time of all "
    "steady steps": ("这些步骤超出中位数 {median:.1f} ms 的时间，占所有稳定步骤时间的比例"),
    "Whether calls wait for the GPU cannot be told: no CUDA calls were recorded": (
        "无法判断是否有调用在等待 GPU：没有记录 CUDA 调用"
    ),
    "A trace with CUDA calls (ProfilerActivity.CUDA)": (
        "含有 CUDA 调用的跟踪（ProfilerActivity.CUDA）"
    ),
    "A capture with CUDA API calls (nsys -t cuda)": ("含有 CUDA API 调用的采集（nsys -t cuda）"),
    "Calls wait until the GPU has finished, {count:.0f} in each step; it then stands idle "
    "until new work arrives": (
        "有调用等待 GPU 完成，每步 {count:.0f} 次；之后 GPU 空闲，直到新的工作到来"
    ),
    "Take .item(), .cpu(), nonzero() and printing of tensors out of the step, or do them "
    "every n steps; copy to pinned memory with non_blocking=True": (
        "请把 .item()、.cpu()、nonzero() 和张量打印移出步骤，或每 n 步做一次；向锁页内存复制"
        "时使用 non_blocking=True"
    ),
    "For each wait the smaller of its length and the GPU's idle time up to the next wait: "
    "in it the CPU could have gone on launching": (
        "每次等待取其长度与到下一次等待之前 GPU 空闲时间中的较小者：其间 CPU 本可以继续启动"
    ),
    "Some matrix products of this mixed-precision model run without Tensor Cores and take "
    "{share:.0f}% of the step": (
        "这个混合精度模型的部分矩阵乘法没有使用 Tensor Core，占步骤的 {share:.0f}%"
    ),
    "See why these ops stay out: a region with autocast off, a .float() before them, an "
    "FP32 or FP64 parameter, an odd shape": (
        "请查看这些算子为何没有使用：关闭 autocast 的区域、之前的 .float()、FP32 或 FP64 参数"
        "、特殊的形状"
    ),
    "The time of these kernels at a sixth of it, as far as the GPU sets the pace; the "
    "ratio of the peaks is 15": (
        "这些内核的时间按六分之一计算，以 GPU 决定步调的部分为限；峰值之比为 15"
    ),
    "Whether the GPU has TF32 cannot be told: its compute capability is missing": (
        "无法判断 GPU 是否支持 TF32：缺少计算能力"
    ),
    "FP32 matrix products take {share:.0f}% of the step without Tensor Cores; this GPU has TF32": (
        "FP32 矩阵乘法占步骤的 {share:.0f}%，没有使用 Tensor Core；此 GPU 支持 TF32"
    ),
    "Allow TF32: torch.set_float32_matmul_precision('high') and "
    "torch.backends.cudnn.allow_tf32 = True. It keeps FP32's range, with 10 bits of "
    "mantissa": (
        "请允许 TF32：torch.set_float32_matmul_precision('high') 和 torch.backends.cudnn.allo"
        "w_tf32 = True。它保持 FP32 的范围，尾数为 10 位"
    ),
    "The time of these kernels at a quarter of it, as far as the GPU sets the pace; the "
    "ratio of the peaks is 7 to 8": (
        "这些内核的时间按四分之一计算，以 GPU 决定步调的部分为限；峰值之比为 7 到 8"
    ),
    "{count} kernels a step are shorter than 5 us and take {share:.0f}% of it: starting "
    "them takes as long as their work": (
        "每步有 {count} 个短于 5 us 的内核，占步骤的 {share:.0f}%：启动它们与其工作一样耗时"
    ),
    "Fuse element-wise ops: torch.compile, fused optimizers and losses, fewer and larger "
    "tensors, larger batches": (
        "请融合逐元素算子：torch.compile、融合的优化器和损失、更少更大的张量、更大的批"
    ),
    "Their time and the gaps of up to 3 us before them; fusing two to three into one saves "
    "about 60% of it": ("它们的时间和之前不超过 3 us 的间隙；把两三个融合成一个约可节省 60%"),
    "Hardware counters (ncu) tell how far from the memory's speed each kernel is": (
        "硬件计数器（ncu）可以说明每个内核离显存速度有多远"
    ),
    "Whether sizes are multiples of 8 cannot be told: no shapes were recorded": (
        "无法判断大小是否为 8 的倍数：没有记录形状"
    ),
    "Shapes of tensors: emit_nvtx(record_shapes=True), or dlprof's own markers": (
        "张量的形状：emit_nvtx(record_shapes=True)，或 dlprof 自己的标记"
    ),
    "16-bit matrix products whose sizes are no multiples of 8 take {share:.0f}% of the step": (
        "大小不是 8 的倍数的 16 位矩阵乘法占步骤的 {share:.0f}%"
    ),
    "Pad layer widths, channels, vocabulary and batch to multiples of 8 (of 64 is better still)": (
        "请把层宽度、通道数、词表和批填充到 8 的倍数（64 的倍数更好）"
    ),
    "Kernels made for unaligned operands at 1/2.5 of their time, others of such shapes at "
    "1/1.15, as far as the GPU sets the pace": (
        "为未对齐操作数而设的内核按 1/2.5 的时间计算，其他此类形状的按 1/1.15，以 GPU 决定步"
        "调的部分为限"
    ),
    "A run with padded sizes tells": ("用填充后的大小运行一次即可知道"),
    "The optimizer reads and writes its values in several passes: {count} kernels a step": (
        "优化器分多遍读写其数值：每步 {count} 个内核"
    ),
    "The optimizer updates its parameters one by one: {count} kernels a step": (
        "优化器逐个更新参数：每步 {count} 个内核"
    ),
    "Use the fused optimizer: torch.optim.Adam(..., fused=True), and alike for AdamW, SGD "
    "and Adagrad": (
        "请使用融合优化器：torch.optim.Adam(..., fused=True)，AdamW、SGD 和 Adagrad 同样"
    ),
    "The optimizer's kernels as far as the GPU sets the pace, and the gaps before late "
    "launches of them, less the time of one pass over its values": (
        "优化器的内核（以 GPU 决定步调的部分为限）和其延迟启动之前的间隙，减去一遍读写其数值的时间"
    ),
}
