/** In the top bar, as it rules every number: what is aggregated, another choice, another domain. */

import { isReport } from "../api/source";
import { t } from "../i18n";
import { aggregationLabel, aggregationTitle } from "../lib/aggregations";
import { currentQuery, navigate } from "../state/location";
import { patchForView } from "../state/query";
import { useScope } from "../state/scope";
import { Button, IconButton } from "../ui/Button";
import { Icon } from "../ui/icons";
import { LimitsChip } from "../ui/Limits";

export interface ScopeBoxProps {
  readonly view: string;
  readonly onAggregations: () => void;
}

export function ScopeBox(props: ScopeBoxProps) {
  const { aggregations, aggregation, profile, domain } = useScope();
  return (
    <div class="scope-box">
      <LimitsChip />
      <FacedSelect
        label={t("Aggregation")}
        face={aggregationTitle(aggregation)}
        value={String(aggregation.id)}
        options={aggregations.map((item) => [String(item.id), aggregationLabel(item)])}
        onChange={(id) => chooseData({ aggregation: id })}
      />
      {profile.domains.length > 1 && (
        <FacedSelect
          label={t("Domain")}
          face={domain}
          value={domain}
          options={profile.domains.map((name) => [name, name])}
          onChange={(name) => chooseData({ domain: name })}
        />
      )}
      {!isReport() && <Reaggregation {...props} />}
    </div>
  );
}

/** Other data: what was selected in the old one (an op, a page, a zoom) means nothing there. */
function chooseData(patch: { aggregation?: string; domain?: string }): void {
  const query = currentQuery();
  navigate({ ...patchForView(query, query.get("view") ?? "dashboard"), ...patch });
}

/** The way to another aggregation: the Iterations view has the chart to choose from. */
function Reaggregation({ view, onAggregations }: ScopeBoxProps) {
  const { profile } = useScope();
  return (
    <>
      {view !== "iterations" && (
        <Button
          disabled={!profile.can_reaggregate}
          title={profile.cannot_reaggregate_reason || t("Aggregate other iterations")}
          onClick={() => navigate(patchForView(currentQuery(), "iterations"))}
        >
          {t("Reaggregate")}
        </Button>
      )}
      <IconButton
        icon="more"
        label={t("Manage")}
        title={t("Name, delete or prefer aggregations")}
        onClick={onAggregations}
      />
    </>
  );
}

interface FacedSelectProps {
  readonly label: string;
  /** What it says when it is closed: shorter than the option. */
  readonly face: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly onChange: (value: string) => void;
}

function FacedSelect({ label, face, value, options, onChange }: FacedSelectProps) {
  return (
    <span class="faced-select" title={`${label}: ${face}`}>
      <span class="faced-text" aria-hidden="true">
        {face}
      </span>
      <Icon name="chevronDown" size={12} />
      <select
        aria-label={label}
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
      >
        {options.map(([id, text]) => (
          <option key={id} value={id}>
            {text}
          </option>
        ))}
      </select>
    </span>
  );
}
