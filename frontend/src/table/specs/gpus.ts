/** The GPUs of the profile. */

import type { Gpu } from "../../api/types";
import { t } from "../../i18n";
import { countColumn, memoryColumn, nameColumn, shareColumn, textColumn } from "../columns";
import type { TableSpec } from "../spec";

export const GPUS_TABLE: TableSpec<Gpu> = {
  id: "gpus",
  noun: [t("GPU"), t("GPUs")],
  columns: [
    {
      ...countColumn<Gpu>("device_id", t("Device ID"), { width: 110, isFilterable: false }),
      align: "left",
    },
    nameColumn<Gpu>("gpu_name", t("GPU name"), { width: 180, isWide: true }),
    shareColumn<Gpu>("gpu_utilization_pct", t("GPU utilization (%)"), () => "gpu", {
      width: 180,
      hint: t("Share of the aggregated time in which a kernel ran on this GPU"),
      // Drawn against 100 %, not against the busiest one.
      full: 100,
    }),
    textColumn<Gpu>("compute_capability", t("Compute capability"), { width: 165 }),
    countColumn<Gpu>("sm_count", t("SM count"), {
      width: 100,
      hint: t("Streaming multiprocessors"),
    }),
    memoryColumn<Gpu>("memory_total_bytes", t("Memory (GiB)"), { width: 128 }),
    memoryColumn<Gpu>("memory_used_bytes", t("Memory used (GiB)"), {
      width: 172,
      hint: t("Most memory in use at once during the run"),
      whenNull: t("The capture holds no reading of the GPU's memory"),
    }),
  ],
  defaults: { sort: "device_id", pageSize: 50 },
  rowKey: (gpu) => `${gpu.device_id} ${gpu.gpu_name}`,
};
