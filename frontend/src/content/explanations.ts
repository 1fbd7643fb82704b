/** What every info icon says: what is it, how is it computed, what should I do about it. */

import { t } from "../i18n";
import type { Explanation } from "../ui/Popover";

export const EXPLANATIONS = {
  iterationTime: {
    what: t("How long one training step takes, on average over the aggregated iterations."),
    how: t(
      "Wall clock time divided by the number of aggregated iterations. The ± is their standard deviation.",
    ),
    advice: t(
      "A wide spread means warm-up or stalls are inside the range: aggregate a steady range instead.",
    ),
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
  efficiency: {
    what: t("How much of what the GPUs could do the run used."),
    how: t(
      "Model FLOPs utilisation: operations of matrix products at the peak rate of their precision, over wall time and GPUs.",
    ),
    advice: t(
      "Low with a busy GPU: see in the table where most is left to win. Low with an idle GPU: see the breakdown first.",
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
      "A point far below its line can be faster: fuse ops that memory bounds, use Tensor Cores for those that computing bounds.",
    ),
  },
  ranks: {
    what: t(
      "What the GPU of each rank did, and how long the rank waited for others in collectives.",
    ),
    how: t(
      "A rank waits in a collective from its own start to the start of the last rank that came before it left.",
    ),
    advice: t(
      "The rank that waits least keeps the others waiting: look at what it does before its collectives.",
    ),
  },
  tcEfficiency: {
    what: t("How well the work that could use Tensor Cores does use them."),
    how: t(
      "GPU time of Tensor Core kernels divided by GPU time of all kernels in ops that are eligible.",
    ),
    advice: t(
      "Higher is better. If it is low, turn on mixed precision and look for eligible ops that don't use Tensor Cores.",
    ),
  },
  wallClock: {
    what: t("Total run time of the aggregated iterations."),
    how: t(
      "Sum of the durations of the aggregated iterations, from the first op to the last work on CPU or GPU.",
    ),
    advice: t("This is what all percentages of the dashboard refer to."),
  },
  iterations: {
    what: t(
      "How many iterations the profile holds, and how many of them the figures are made from.",
    ),
    how: t(
      "Each occurrence of the key node ends an iteration. Start and stop iteration both count.",
    ),
    advice: t(
      "Leave warm-up and tear-down out: choose another range or key node in the Iterations view.",
    ),
  },
  resourceUsage: {
    what: t("Where the time of the aggregated iterations goes."),
    how: t(
      "Each moment counts once, for the first that applies: Tensor Core kernel, other kernel, memory, dataloader, I/O, CPU, other. All add up to 100 %.",
    ),
    advice: t(
      "Green is GPU work. Attack the largest other part: dataloader - more workers; CPU - fewer, larger ops; memory - fewer copies.",
    ),
  },
  iterationSummary: {
    what: t("Every iteration of the profile, split into what its time was spent on."),
    how: t(
      "One bar per iteration; in long profiles one bar shows the mean of several neighbours. Grey bars are outside of the aggregation.",
    ),
    advice: t(
      "Bars of unlike height belong to warm-up, evaluation or stalls. Aggregate the even part.",
    ),
  },
  topOps: {
    what: t("The ten ops that took most GPU time."),
    how: t(
      "GPU time of an op is the union of the kernels and copies that its calls launched, summed over its calls.",
    ),
    advice: t(
      "Start at the top. A cross in the colour of a warning marks ops that could use Tensor Cores and don't.",
    ),
  },
  kernelGpuTime: {
    what: t("GPU time of all kernels, by kind."),
    how: t(
      "Sum of the durations of all kernels and memory operations in the aggregated iterations; overlapping ones count each.",
    ),
    advice: t("A large memory part hints at copies or layout changes that can be avoided."),
  },
  recommendations: {
    what: t("Common problems that were found in this profile, and what to do about them."),
    how: t("Each detector looks at the aggregated figures; only the problems found are listed."),
    advice: t("Work from the top, profile again, and compare."),
  },
} as const satisfies Record<string, Explanation>;
