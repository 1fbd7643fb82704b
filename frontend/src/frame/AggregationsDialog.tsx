/** The aggregations of the profile: open, name, delete one, or choose what the profile opens with. */

import { useState } from "preact/hooks";
import { type ApiError, apiUrl, sendJson, toApiError } from "../api/client";
import type { AggregationChange, AggregationsRow } from "../api/types";
import { t } from "../i18n";
import { rangeText } from "../lib/aggregations";
import type { JobControl } from "../state/jobs";
import { currentQuery, hrefWith, navigate } from "../state/location";
import { patchForView, type QueryPatch } from "../state/query";
import { chooseAggregation, useScope } from "../state/scope";
import { useDebounced } from "../table/useDebounced";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/icons";
import { Name } from "../ui/Name";
import { ErrorNote } from "../ui/states";

/** The view that is open, with another aggregation. */
function patchTo(id: number): Readonly<Record<string, string | null>> {
  const query = currentQuery();
  const view = query.get("view") ?? "dashboard";
  return { ...patchForView(query, view), aggregation: String(id) };
}

export function AggregationsDialog(props: {
  jobs: JobControl;
  onClose: () => void;
  onKeyNode: () => void;
}) {
  const { profile, aggregations, aggregation, reloadAggregations } = useScope();
  const [error, setError] = useState<ApiError | null>(null);
  const [deleted, setDeleted] = useState<AggregationsRow | null>(null);
  const first = chooseAggregation(undefined, aggregations);
  const isForeign = profile.is_foreign === true;
  const reason = isForeign
    ? t("A database of NVIDIA's is never changed.")
    : profile.cannot_reaggregate_reason;
  const act = (doing: Promise<unknown>, then: () => void = () => undefined) => {
    doing
      .then(() => {
        setError(null);
        then();
        reloadAggregations();
      })
      .catch((failed: unknown) => setError(toApiError(failed)));
  };
  const remove = (row: AggregationsRow) =>
    act(sendJson("DELETE", addressOf(profile.id, row)), () => {
      setDeleted(row);
      const left = aggregations.filter((one) => one.id !== row.id);
      const next = row.id === aggregation.id ? chooseAggregation(undefined, left) : null;
      if (next !== null && "id" in next) navigate(patchTo(next.id), { replace: true });
    });
  const restore = (row: AggregationsRow) => {
    setDeleted(null);
    const { key_node, iter_start, iter_stop, phase } = row;
    props.jobs.start({ key_node, iter_start, iter_stop, phase }).catch((failed: unknown) => {
      setError(toApiError(failed));
    });
  };
  return (
    <Dialog title={t("Aggregations")} onClose={props.onClose} size="large">
      <div class="aggregations">
        {reason !== "" && <p class="error-hint">{reason}</p>}
        {error !== null && <ErrorNote error={error} />}
        <ul class="profiles-list">
          {aggregations.map((row) => (
            <Row
              key={row.id}
              row={row}
              isShown={row.id === aggregation.id}
              isFirst={row === first}
              canChange={reason === ""}
              isLast={aggregations.length === 1}
              onChange={(change) => act(sendJson("PATCH", addressOf(profile.id, row), change))}
              onDelete={() => remove(row)}
            />
          ))}
        </ul>
        {profile.can_reaggregate && (
          <Button onClick={props.onKeyNode}>
            <Icon name="key" /> {t("Select key node")}
          </Button>
        )}
        <p role="status">
          {deleted !== null && (
            <>
              {t("Aggregation #{id} was deleted; the events of the profile were kept.", {
                id: deleted.id,
              })}{" "}
              <Button class="link-button" onClick={() => restore(deleted)}>
                {t("Aggregate it again")}
              </Button>
            </>
          )}
        </p>
      </div>
    </Dialog>
  );
}

/** The comparison whose base is to be chosen, with an aggregation as the new side. */
function compareWith(id: number): QueryPatch {
  return {
    ...patchForView(currentQuery(), "compare"),
    aggregation: String(id),
  };
}

function addressOf(profileId: string, row: AggregationsRow): string {
  return apiUrl(`profiles/${profileId}/aggregations/${row.id}/`);
}

interface RowProps {
  readonly row: AggregationsRow;
  readonly isShown: boolean;
  /** Whether the profile opens with it. */
  readonly isFirst: boolean;
  readonly canChange: boolean;
  readonly isLast: boolean;
  readonly onChange: (change: AggregationChange) => void;
  readonly onDelete: () => void;
}

const NAME_DELAY_MS = 600;

function Row(props: RowProps) {
  const { row, isShown, isFirst, canChange, isLast, onChange, onDelete } = props;
  const { id } = row;
  const isDefault = row.is_default === true;
  const [name, setName] = useDebounced(
    row.name ?? "",
    (text) => onChange({ name: text.trim() }),
    NAME_DELAY_MS,
  );
  const defaultLabel = isDefault
    ? t("Default: the profile opens with aggregation #{id}", { id })
    : t("Default: open the profile with aggregation #{id}", { id });
  return (
    <li class="aggregation-row" aria-current={isShown ? "true" : undefined}>
      <a class="aggregation-open" href={hrefWith(patchTo(id))}>
        #{id} · {rangeText(row)}
        {row.is_steady === true && ` · ${t("no start-up")}`}
        {isFirst && <span class="tag">{t("opens first")}</span>}
      </a>
      {canChange ? (
        <input
          class="input"
          aria-label={t("Name of aggregation #{id}", { id })}
          placeholder={t("Name")}
          maxLength={80}
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      ) : (
        <span>{row.name}</span>
      )}
      <span class="aggregation-key" title={row.key_node_reason ?? undefined}>
        {row.key_node !== null && row.key_node !== "" && <Name name={row.key_node} />}
      </span>
      <a class="button" href={hrefWith(compareWith(id))}>
        {t("Compare with …")}
      </a>
      {canChange && (
        <>
          <Button
            aria-pressed={isDefault}
            aria-label={defaultLabel}
            title={defaultLabel}
            onClick={() => onChange({ is_default: !isDefault })}
          >
            {isDefault && <Icon name="check" size={12} />} {t("Default")}
          </Button>
          <Button
            aria-label={t("Delete aggregation #{id}", { id })}
            disabled={isLast}
            title={isLast ? t("The last aggregation of a profile cannot be deleted.") : undefined}
            onClick={onDelete}
          >
            {t("Delete")}
          </Button>
        </>
      )}
    </li>
  );
}
