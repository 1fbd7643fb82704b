/** What a capture cannot say: a chip with all of it, and marks beside the figures concerned. */

import type { CaptureLimit, Limits } from "../api/types";
import { t } from "../i18n";
import { useScoped } from "../state/scope";
import { Icon } from "./icons";
import { MenuButton } from "./Popover";

/** Older servers and reports in one file have no such answer: then nothing is said. */
function useLimits(): Limits | null {
  return useScoped<Limits>("limits/").data;
}

export function LimitsChip() {
  const limits = useLimits();
  if (limits === null || limits.count === 0) return null;
  const { count } = limits;
  const label = count === 1 ? t("1 limit") : t("{count} limits", { count });
  return (
    <MenuButton
      label={t("{limits} of this capture", { limits: label })}
      class={`pill ${limits.fault_count > 0 ? "pill-warn" : ""}`}
      align="start"
      face={
        <>
          <Icon name={limits.fault_count > 0 ? "alert" : "info"} size={13} /> {label}
        </>
      }
    >
      <div class="limits">
        <h2>{t("Limits of this capture")}</h2>
        <ul>
          {limits.limits.map((limit, place) => (
            <Limit key={place} limit={limit} />
          ))}
        </ul>
        {!limits.is_complete && <p class="muted">{limits.reason}</p>}
      </div>
    </MenuButton>
  );
}

function Limit({ limit }: { limit: CaptureLimit }) {
  return (
    <li class={limit.is_fault ? "limit-fault" : ""}>
      <h3>{limit.title}</h3>
      <p>{limit.sentence}</p>
      {limit.effect !== "" && <p class="muted">{limit.effect}</p>}
      {limit.example !== "" && (
        <p class="muted">
          {t("For example")} <code>{limit.example}</code>
        </p>
      )}
      {limit.recommendation !== "" && <p>{limit.recommendation}</p>}
    </li>
  );
}

const SIGNS: Readonly<Record<string, string>> = { at_least: "≥", at_most: "≤", unknown: "?" };

/** A mark beside a figure that a limit touches: at least, at most, or not to be relied on. */
export function LimitMark({ figure }: { figure: string }) {
  const limits = useLimits();
  const bound = limits?.bounds[figure];
  if (limits === null || bound === undefined) return null;
  const about = limits.limits.filter((limit) => bound.limits.includes(limit.code));
  const words: Readonly<Record<string, string>> = {
    at_least: t("At least this"),
    at_most: t("At most this"),
    unknown: t("Not certain"),
  };
  const text = `${words[bound.bound] ?? ""}: ${about.map((limit) => limit.title).join(", ")}`;
  const isFault = about.some((limit) => limit.is_fault);
  return (
    <span class={`limit-mark ${isFault ? "is-fault" : ""}`} title={text}>
      <span aria-hidden="true">{SIGNS[bound.bound]}</span>
      <span class="visually-hidden">{text}</span>
    </span>
  );
}
