/** Op types: the time of all ops of a kind. A row opens the ops of that type. */

import type { OpTypesRow } from "../../api/types";
import { t } from "../../i18n";
import { currentQuery, navigate } from "../../state/location";
import { patchForView } from "../../state/query";
import { UrlTable } from "../../table/DataTable";
import { OP_TYPES_TABLE } from "../../table/specs/ops";
import { NoOps } from "../NoOps";

function openOps(type: OpTypesRow): void {
  navigate({ ...patchForView(currentQuery(), "ops"), "ops.f.op_type__in": type.op_type });
}

export default function OpTypesView() {
  return (
    <div class="view view-single">
      <h1 class="visually-hidden">{t("Op type summary")}</h1>
      <UrlTable
        spec={OP_TYPES_TABLE}
        path="op-types/"
        caption={t("Op types")}
        onSelect={openOps}
        whenEmpty={<NoOps />}
      />
    </div>
  );
}
