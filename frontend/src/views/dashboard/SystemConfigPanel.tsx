/** The machine and the versions behind the figures. */

import type { Profile, SystemConfig } from "../../api/types";
import { t } from "../../i18n";
import { formatInt } from "../../lib/units";
import { useScope } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Facts } from "../../ui/states";

type Field = readonly [label: string, key: keyof SystemConfig & string];

const FIELDS: readonly Field[] = [
  [t("Profile name"), "profile_name"],
  [t("GPU count"), "gpu_count"],
  [t("GPU names"), "gpu_names"],
  [t("CPU model"), "cpu_model"],
  [t("GPU driver version"), "driver_version"],
  [t("Framework"), "framework"],
  [t("CUDA version"), "cuda_version"],
  [t("cuDNN version"), "cudnn_version"],
  [t("NSys version"), "nsys_version"],
  [t("DLProf version"), "dlprof_version"],
  [t("DLProf DB version"), "dlprof_db_version"],
  [t("DLProf Viewer version"), "viewer_version"],
];

/** Names that occur n times are listed once: "2 × NVIDIA H200". */
export function groupNames(names: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${count} × ${name}`));
}

function valueText(config: SystemConfig, key: keyof SystemConfig): string {
  const value = config[key];
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return groupNames(value).join(", ");
  return typeof value === "number" ? formatInt(value) : String(value);
}

export function SystemConfigPanel() {
  const { profile } = useScope();
  const config = profile.system_config;
  return (
    <Panel title={t("System config")} span={12}>
      <Facts
        class="facts"
        facts={FIELDS.map(([label, key]) => [
          label,
          valueText(config, key) || null,
          profile.unknown[`system_config.${key}`],
        ])}
      />
      <Origin profile={profile} />
    </Panel>
  );
}

/** Where the profile comes from and what its reading left out. */
function Origin({ profile }: { profile: Profile }) {
  const command = profile.system_config.original_command ?? "";
  if (command === "" && profile.warnings.length === 0) return null;
  return (
    <div class="origin">
      {command !== "" && (
        <p>
          <span class="field-label">{t("Command")}</span> <code>{command}</code>
        </p>
      )}
      {profile.warnings.length > 0 && (
        <details>
          <summary>
            {profile.warnings.length === 1
              ? t("1 note on this profile")
              : t("{count} notes on this profile", { count: profile.warnings.length })}
          </summary>
          <ul>
            {profile.warnings.map((warning) => (
              <li key={warning.code}>
                {warning.message} <code>{warning.code}</code>
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}
