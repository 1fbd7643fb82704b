/** Op types: the time of all ops of a kind. A row opens the ops of that type. */

import type { JSX } from "preact";
import type { OpTypesRow } from "../../api/types";
import { t } from "../../i18n";
import { currentQuery, navigate, useQuery } from "../../state/location";
import { patchForView } from "../../state/query";
import { useScope } from "../../state/scope";
import { DataTable } from "../../table/DataTable";
import { OP_TYPES_TABLE } from "../../table/specs/ops";
import { useUrlTable } from "../../table/useTableState";
import { NoOps } from "../NoOps";

function openOps(type: OpTypesRow): void {
  navigate({ ...patchForView(currentQuery(), "ops"), "ops.f.op_type__in": type.op_type });
}

export function OpTypesView(): JSX.Element {
  const table = useUrlTable(OP_TYPES_TABLE, useQuery());
  const { profile } = useScope();
  return (
    <div class="view view-single">
      <h1 class="visually-hidden">{t("Op type summary")}</h1>
      <DataTable<OpTypesRow>
        spec={OP_TYPES_TABLE}
        control={table}
        path="op-types/"
        caption={t("Op types")}
        title={<h2>{t("Op types")}</h2>}
        onSelect={openOps}
        whenEmpty={<NoOps reason={profile.info.no_ops_reason ?? null} />}
      />
    </div>
  );
}
