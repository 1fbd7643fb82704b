/** The machine and the versions behind the figures. */

import type { JSX } from "preact";
import type { Profile, SystemConfig } from "../../api/types";
import { formatInt } from "../../lib/units";
import { useScope } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { Unknown } from "../../ui/states";

type Field = readonly [label: string, key: keyof SystemConfig & string];

const FIELDS: readonly Field[] = [
  ["Profile name", "profile_name"],
  ["GPU count", "gpu_count"],
  ["GPU names", "gpu_names"],
  ["CPU model", "cpu_model"],
  ["GPU driver version", "driver_version"],
  ["Framework", "framework"],
  ["CUDA version", "cuda_version"],
  ["cuDNN version", "cudnn_version"],
  ["NSys version", "nsys_version"],
  ["DLProf version", "dlprof_version"],
  ["DLProf DB version", "dlprof_db_version"],
  ["DLProf Viewer version", "viewer_version"],
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

export function SystemConfigPanel(): JSX.Element {
  const { profile } = useScope();
  const config = profile.system_config;
  return (
    <Panel title="System config" span={8}>
      <dl class="facts">
        {FIELDS.map(([label, key]) => {
          const text = valueText(config, key);
          return (
            <div key={key}>
              <dt>{label}</dt>
              <dd>{text === "" ? <Unknown reason={config.unknown?.[key]} /> : text}</dd>
            </div>
          );
        })}
      </dl>
      <Origin profile={profile} />
    </Panel>
  );
}

/** Where the profile comes from and what its reading left out. */
function Origin({ profile }: { profile: Profile }): JSX.Element | null {
  const command = profile.system_config.original_command ?? "";
  if (command === "" && profile.warnings.length === 0) return null;
  return (
    <div class="origin">
      {command !== "" && (
        <p>
          <span class="field-label">Command</span> <code>{command}</code>
        </p>
      )}
      {profile.warnings.length > 0 && (
        <details>
          <summary>
            {profile.warnings.length === 1
              ? "1 note on this profile"
              : `${profile.warnings.length} notes on this profile`}
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
