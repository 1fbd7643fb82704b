/** The key node picker: the candidates, and a smaller ops table to filter, sort and page. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { OpsRow } from "../../api/types";
import { t } from "../../i18n";
import { DataTable } from "../../table/DataTable";
import { KEY_NODE_TABLE } from "../../table/specs/ops";
import { useLocalTable } from "../../table/useTableState";
import { Dialog } from "../../ui/Dialog";
import { KeyNodeCandidates } from "./KeyNodeCandidates";

export interface KeyNodeDialogProps {
  readonly current: string | null;
  readonly onPick: (keyNode: string) => void;
  readonly onClose: () => void;
}

export function KeyNodeDialog({ current, onPick, onClose }: KeyNodeDialogProps): JSX.Element {
  const control = useLocalTable(KEY_NODE_TABLE);
  const [picked, setPicked] = useState<string | null>(current);
  const isNew = picked !== null && picked !== current;
  return (
    <Dialog
      title={t("Select key node")}
      size="large"
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={onClose}>
            {t("Cancel")}
          </button>
          <button
            type="button"
            class="button button-primary"
            disabled={!isNew}
            onClick={() => {
              if (picked !== null) onPick(picked);
            }}
          >
            {t("Use this key node")}
          </button>
        </>
      }
    >
      <p class="dialog-lead">
        {t(
          "Each call of the key node ends an iteration. Choose an op that is called once per training step: its number of calls equals the number of steps.",
        )}
      </p>
      <KeyNodeCandidates picked={picked} onPick={setPicked} />
      <DataTable<OpsRow>
        spec={KEY_NODE_TABLE}
        control={control}
        path="ops/"
        caption={t("Ops to choose the key node from")}
        title={<h3>{t("Ops")}</h3>}
        selected={picked}
        onSelect={(op) => setPicked(op.op_id)}
        onDrill={(op) => onPick(op.op_id)}
        hasExport={false}
      />
    </Dialog>
  );
}
