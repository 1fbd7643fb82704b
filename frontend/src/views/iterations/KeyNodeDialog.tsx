/** The key node picker: the candidates, and a smaller ops table to filter, sort and page. */

import { useMemo, useState } from "preact/hooks";
import { type ApiError, toApiError } from "../../api/client";
import type { AggregationsRow, OpsRow } from "../../api/types";
import { t } from "../../i18n";
import { isActive, useJobControl } from "../../state/jobs";
import { navigate } from "../../state/location";
import { ScopeContext, useScope } from "../../state/scope";
import { DataTable } from "../../table/DataTable";
import { KEY_NODE_TABLE } from "../../table/specs/ops";
import { useLocalTable } from "../../table/useTableState";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { ErrorNote } from "../../ui/states";
import { KeyNodeCandidates } from "./KeyNodeCandidates";

/** What is sent, and what people call it. */
export interface PickedKeyNode {
  readonly id: string;
  readonly name: string;
}

export interface KeyNodeDialogProps {
  readonly current: string | null;
  /** Takes the key node into a form; left out: it can only be aggregated with. */
  readonly onPick?: (keyNode: PickedKeyNode) => void;
  readonly onClose: () => void;
}

/** The aggregation of the most iterations: it has the most calls of an op. */
function widest(aggregations: readonly AggregationsRow[], own: AggregationsRow): AggregationsRow {
  const size = (row: AggregationsRow) => row.iter_aggregated ?? 0;
  return aggregations.reduce((best, row) => (size(row) > size(best) ? row : best), own);
}

export function KeyNodeDialog({ current, onPick, onClose }: KeyNodeDialogProps) {
  const scope = useScope();
  const jobs = useJobControl();
  const control = useLocalTable(KEY_NODE_TABLE);
  const [picked, setPicked] = useState<PickedKeyNode | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const counted = useMemo(
    () => ({ ...scope, aggregation: widest(scope.aggregations, scope.aggregation) }),
    [scope],
  );
  const { iter_start: first, iter_stop: last } = counted.aggregation;
  const isNew = picked !== null && picked.id !== current;
  const isBusy = jobs.job !== null && jobs.isOwn && isActive(jobs.job);
  const aggregate = () => {
    if (picked === null) return;
    // Which iterations there are is known only afterwards: all of them.
    jobs
      .start({ key_node: picked.id })
      .then(onClose)
      .catch((reason: unknown) => setError(toApiError(reason)));
  };
  return (
    <Dialog
      title={t("Select key node")}
      size="large"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          {onPick !== undefined && (
            <Button
              disabled={!isNew}
              onClick={() => {
                if (picked !== null) onPick(picked);
              }}
            >
              {t("Use this key node")}
            </Button>
          )}
          <Button class="button button-primary" disabled={!isNew || isBusy} onClick={aggregate}>
            {t("Aggregate with it")}
          </Button>
        </>
      }
    >
      <p class="dialog-lead">
        {t(
          "Each call of the key node ends an iteration. Choose an op that is called once per training step: its number of calls equals the number of steps.",
        )}{" "}
        {first !== null &&
          last !== null &&
          t("Calls and times are those of iterations {first}–{last}.", { first, last })}{" "}
        <Button class="link-button" onClick={() => navigate({ docs: "key-nodes" })}>
          {t("How to choose one")}
        </Button>
      </p>
      {error !== null && <ErrorNote error={error} />}
      <KeyNodeCandidates
        picked={picked?.id ?? current}
        search={control.state.search}
        onPick={(id, name) => setPicked({ id, name })}
      />
      <ScopeContext.Provider value={counted}>
        <DataTable<OpsRow>
          spec={KEY_NODE_TABLE}
          control={control}
          path="ops/"
          caption={t("Ops to choose the key node from")}
          title={<h3>{t("Ops")}</h3>}
          selected={picked?.id ?? current}
          onSelect={(op) => setPicked({ id: op.op_id, name: op.op_name ?? op.op_id })}
          hasExport={false}
        />
      </ScopeContext.Provider>
    </Dialog>
  );
}
