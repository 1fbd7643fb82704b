/** The texts of the info icons: what a value means, how it is computed, what to do about it. */

import { t } from "../i18n";
import type { Explanation } from "../ui/Popover";

export const EXPLANATIONS = {
  iterationTime: {
    what: t("Mean length of a training step over the aggregated iterations."),
    how: t(
      "Wall clock time divided by the number of aggregated iterations. The ± is their standard deviation.",
    ),
    advice: t(
      "A wide spread means that the range includes warm-up or stalls: aggregate a steady range instead.",
    ),
  },
  stepTime: {
    what: t("Median time of a training step; the mean where steps differ much."),
    how: t(
      "A step ends when both its host part and its work on the GPU have ended. Iterations, in the chart and the tables, are cut where the key node ends, as DLProf does it: single ones differ.",
    ),
    advice: t(
      "Start-up and the end of the program are left out; the first aggregation in the list contains them.",
    ),
  },
  recordedSpan: {
    what: t("From the start of the first to the end of the last work of a GPU."),
    how: t("No step was found, so it stands for one: shares and the critical path are of it."),
    advice: t("Record a loop of at least two steps, or choose a key node."),
  },
  gpuUtilization: {
    what: t(
      "The share of the wall clock during which at least one kernel ran on a GPU; the mean over all GPUs.",
    ),
    how: t(
      "Union of all kernel times inside the aggregated iterations, divided by wall clock time. Copies do not count.",
    ),
    advice: t(
      "Higher is better. Below about 80 %, see in the breakdown what the GPU was waiting for.",
    ),
  },
  throughput: {
    what: t("Tokens that the longest phase of the program works on in a second."),
    how: t(
      "Tokens of its iterations, divided by their time: without profiling where that was timed.",
    ),
    advice: t("Compare it with the bandwidth of the GPU's memory: see the phases below."),
  },
  samples: {
    what: t("Samples of all ranks in a step, divided by the time of the step above."),
    how: t("The batch size is that of the program's first data loader."),
    advice: t("Compare it between batch sizes: the step alone says nothing there."),
  },
  peakMemory: {
    what: t("The most memory in use at once on a GPU during the run."),
    how: t("As the driver reports it, with what the framework keeps in reserve."),
    advice: t("Much of it free: a larger batch fits. Little: record the memory to see what lives."),
  },
  efficiency: {
    what: t("Share of the GPUs' peak performance that the run used."),
    how: t(
      "Model FLOPs utilization: operations of matrix products at the peak rate of their precision, over wall time and GPUs.",
    ),
    advice: t(
      "Low with a busy GPU: the roofline shows which ops lose most time. Low with an idle GPU: see the breakdown first.",
    ),
  },
  roofline: {
    what: t(
      "Each op by its operations per byte and its rate; the lines are the GPU's bandwidth and peak rates.",
    ),
    how: t(
      "Operations and bytes come from the recorded sizes, each tensor read and written once; large points took more GPU time.",
    ),
    advice: t(
      "A point far below its line can be faster: fuse ops that are limited by memory, use Tensor Cores for ops that are limited by computing.",
    ),
  },
  memory: {
    what: t("The memory of the GPU that is allocated, by what it is used for."),
    how: t(
      "The recorded allocations are replayed. Each pixel shows its highest moment, so no peak is left out; the kinds add up to what is allocated.",
    ),
    advice: t(
      "Drag to show a part, click or use the arrow keys for another moment. Look at the peak first: only what lives then limits the batch size.",
    ),
  },
  slowRanks: {
    what: t("Which rank makes the step slow, and how late each rank was in each iteration."),
    how: t(
      "The own time of a rank in a step, without its waiting for others, less the median of the other ranks. The step without a rank is a replay in which it takes the median times of the others.",
    ),
    advice: t(
      "A dark row: look at that rank's GPU, its clocks, its input and other programs on its machine.",
    ),
  },
  whatIf: {
    what: t("How long the step would take with changes."),
    how: t(
      "All steady steps are replayed with the changed times; what waits for something goes on earlier. The number is the median step.",
    ),
    advice: t(
      "Move the sliders before you optimize: what is not on the critical path gives nothing.",
    ),
  },
  path: {
    what: t("The time on the critical path by kind and op, as a mean of all steady steps."),
    how: t("The parts add up to the step."),
    advice: t("Start with the longest: each nanosecond saved there shortens the step."),
  },
  rankIterations: {
    what: t(
      "How long the other ranks together waited for a rank in the collectives of an iteration.",
    ),
    how: t(
      "In each collective the others wait from their own start until the last rank has started. Where a cell stands for several iterations it shows the longest.",
    ),
    advice: t(
      "A dark row: that rank is late in all iterations. Dark columns in turn: the work differs from iteration to iteration. Click a cell for its collectives.",
    ),
  },
  ranks: {
    what: t(
      "Computing and communication of each rank's GPU, and its time waiting for other ranks in collectives.",
    ),
    how: t(
      "A rank waits in a collective from its own start until the last of the other ranks has started.",
    ),
    advice: t(
      "The rank that waits least makes the others wait: check what it does before its collectives.",
    ),
  },
  tcEfficiency: {
    what: t("Share of the work that could use Tensor Cores and does."),
    how: t(
      "GPU time of Tensor Core kernels divided by the GPU time of all kernels in eligible ops.",
    ),
    advice: t(
      "Higher is better. If it is low, turn on mixed precision and look for eligible ops that don't use Tensor Cores.",
    ),
  },
  communication: {
    what: t("The share of the time in which GPUs only exchanged data, while no kernel computed."),
    how: t(
      "Union of the kernels that move data between GPUs, minus that of all other kernels; the mean over all GPUs. It contains the waiting for late ranks.",
    ),
    advice: t("Overlap it with computing, send less, or find the rank that is late."),
  },
  iterations: {
    what: t("Number of iterations in the profile, and how many of them are aggregated."),
    how: t(
      "Each occurrence of the key node ends an iteration. Start and stop iteration both count. Times of a step are of whole steps only: one that begins after a pause, or ends with the recording, does not count.",
    ),
    advice: t(
      "To leave out warm-up and shutdown, choose another range or key node in the Iterations view.",
    ),
  },
  resourceUsage: {
    what: t("Breakdown of the mean step: what the GPU does, and what it waits for."),
    how: t(
      "Each moment counts once, for the first category that applies: Tensor Core kernel, other kernel, communication, graph, copy (DLProf: memory), data loader, I/O, ops on the CPU, other. They add up to 100 %.",
    ),
    advice: t(
      "Green is GPU work. Reduce the largest other part: dataloader - more workers; CPU - fewer, larger ops; memory - fewer copies.",
    ),
  },
  iterationSummary: {
    what: t("Every iteration of the profile, with a breakdown of its time."),
    how: t(
      "One bar per iteration; in long profiles one bar shows the mean of several neighbors. Gray bars are outside the aggregation.",
    ),
    advice: t(
      "Bars of different height are warm-up, evaluation or stalls. Aggregate the part with bars of equal height.",
    ),
  },
  topOps: {
    what: t("The kernels, ops, modules and op types with the most GPU time."),
    how: t(
      "GPU time of an op is the union of the kernels and copies that its calls launched, summed over its calls; that of a kernel is the sum of its launches.",
    ),
    advice: t(
      "Start at the top. A cross in the warning color marks ops that could use Tensor Cores and do not.",
    ),
  },
  kernelGpuTime: {
    what: t("GPU time of all kernels, by kind."),
    how: t(
      "Sum of the durations of all kernels and memory operations in the aggregated iterations; each of overlapping ones counts.",
    ),
    advice: t("A large memory part suggests copies or layout changes that can be avoided."),
  },
  recommendations: {
    what: t("Common problems that were found in this profile, and how to solve them."),
    how: t("Each detector looks at the aggregated figures; only the problems found are listed."),
    advice: t("Work from the top, profile again, and compare."),
  },
} as const satisfies Record<string, Explanation>;
