/** Which captures are compared: one or more a side, each a profile or one of its aggregations. */

import { t } from "../../i18n";
import { aggregationLabel } from "../../lib/aggregations";
import { navigate } from "../../state/location";
import { type Scope, useScope } from "../../state/scope";
import { IconButton } from "../../ui/Button";
import { Icon } from "../../ui/icons";
import { captures } from "./model";

interface Choice {
  readonly value: string;
  readonly text: string;
}

function choicesOf(scope: Scope): Choice[] {
  const own = scope.aggregations.map((row) => ({
    value: `${scope.profile.id}@${row.id}`,
    text: `${scope.profile.name ?? scope.profile.file_name} · ${aggregationLabel(row)}`,
  }));
  const others = scope.profiles
    .filter((profile) => profile.id !== scope.profile.id)
    .map((profile) => ({ value: profile.id, text: profile.name }));
  return [...own, ...others];
}

function textOf(value: string, choices: readonly Choice[], scope: Scope): string {
  const [id, aggregation] = value.split("@");
  const found = choices.find((choice) => choice.value === value);
  if (found !== undefined) return found.text;
  const name = scope.profiles.find((profile) => profile.id === id)?.name ?? value;
  return aggregation === undefined ? name : `${name} #${aggregation}`;
}

export function Sides({ base, next }: { base: string; next: string }) {
  const swap = () => navigate({ base: next, new: base, row: null });
  return (
    <div class="compare-sides">
      <SideOf title={t("Base")} name="base" value={base} />
      <IconButton icon="doubleRight" label={t("Swap the sides")} onClick={swap} />
      <SideOf title={t("New")} name="new" value={next} />
    </div>
  );
}

function SideOf(props: { title: string; name: "base" | "new"; value: string }) {
  const scope = useScope();
  const { title, name, value } = props;
  const choices = choicesOf(scope);
  const chosen = captures(value);
  const change = (next: readonly string[]) => navigate({ [name]: next.join(","), row: null });
  return (
    <fieldset class="compare-side">
      <legend>{title}</legend>
      <ul>
        {chosen.map((one) => (
          <li key={one} class="chip">
            <span class="chip-label" title={textOf(one, choices, scope)}>
              {textOf(one, choices, scope)}
            </span>
            <button
              type="button"
              aria-label={t("Remove {name}", { name: textOf(one, choices, scope) })}
              onClick={() => change(chosen.filter((other) => other !== one))}
            >
              <Icon name="close" size={12} />
            </button>
          </li>
        ))}
      </ul>
      <select
        class="select"
        aria-label={t("Add a capture: {side}", { side: title })}
        value=""
        onChange={(event) => change([...chosen, event.currentTarget.value])}
      >
        <option value="">{t("Add a capture …")}</option>
        {[true, false].map((isOwn) => (
          <optgroup key={`${isOwn}`} label={isOwn ? t("This profile") : t("Other profiles")}>
            {choices
              .filter((choice) => choice.value.includes("@") === isOwn)
              .filter((choice) => !chosen.includes(choice.value))
              .map((choice) => (
                <option key={choice.value} value={choice.value}>
                  {choice.text}
                </option>
              ))}
          </optgroup>
        ))}
      </select>
    </fieldset>
  );
}
