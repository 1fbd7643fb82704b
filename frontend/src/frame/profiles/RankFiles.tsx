/** The files that were chosen as ranks of one job: which is which, and how far each upload is. */

import { t } from "../../i18n";
import { formatPct } from "../../lib/units";
import { type ChosenFile, type RankMistake, rankMistake } from "../../state/rankFiles";
import { Button } from "../../ui/Button";

const MISTAKES = {
  "not a number": () => t("A rank must be a whole number, 0 or greater."),
  twice: () => t("Two files have the same rank."),
  missing: () => t("Enter a rank for every file, or for none."),
} satisfies Record<RankMistake, () => string>;

export interface RankFilesProps {
  readonly chosen: readonly ChosenFile[];
  /** Share of each file that is uploaded; null: nothing is under way. */
  readonly shares: readonly number[] | null;
  readonly onChange: (chosen: readonly ChosenFile[]) => void;
}

export function RankFiles({ chosen, shares, onChange }: RankFilesProps) {
  const mistake = rankMistake(chosen);
  const typeRank = (index: number, rank: string) =>
    onChange(chosen.map((item, at) => (at === index ? { ...item, rank } : item)));
  return (
    <fieldset class="profiles-ranks">
      <legend>{t("{count} rank files of one job", { count: chosen.length })}</legend>
      <p class="help-note">
        {t(
          "They are joined into one profile. Without numbers, the ranks are taken from the names or the order of the files.",
        )}
      </p>
      <ul class="profiles-list profiles-ranks-list">
        {chosen.map((item, index) => (
          <li key={`${item.file.name}:${item.file.size}:${item.file.lastModified}`}>
            <div class="profiles-row">
              <label class="profiles-rank">
                <span>{t("Rank")}</span>
                <input
                  class="input"
                  inputMode="numeric"
                  aria-label={t("Rank of {file}", { file: item.file.name })}
                  aria-invalid={mistake !== null}
                  value={item.rank}
                  disabled={shares !== null}
                  onInput={(event) => typeRank(index, event.currentTarget.value)}
                />
              </label>
              <span class="profiles-name">{item.file.name}</span>
              <span class="profiles-file">{sizeOf(item.file)}</span>
              {shares === null ? (
                <Button
                  aria-label={t("Leave out {file}", { file: item.file.name })}
                  onClick={() => onChange(chosen.filter((_, at) => at !== index))}
                >
                  {t("Leave out")}
                </Button>
              ) : (
                <Share file={item.file.name} share={shares[index] ?? 0} />
              )}
            </div>
          </li>
        ))}
      </ul>
      {mistake !== null && <p class="error-message">{MISTAKES[mistake]()}</p>}
    </fieldset>
  );
}

function Share({ file, share }: { file: string; share: number }) {
  const pct = share * 100;
  return (
    <>
      <progress max={100} value={pct} aria-label={t("Upload of {file}", { file })} />
      <span class="profiles-share">{`${formatPct(pct)} %`}</span>
    </>
  );
}

function sizeOf(file: File): string {
  return `${(file.size / 1e6).toFixed(1)} MB`;
}
