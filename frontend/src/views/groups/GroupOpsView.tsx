/** Group ops: the model as a tree of modules and their ops, or as a list to search and filter. */

import type { JSX } from "preact";
import { t } from "../../i18n";
import { navigate, useQuery } from "../../state/location";
import { UrlTable } from "../../table/DataTable";
import { GROUPS_TABLE } from "../../table/specs/groups";
import { Segmented } from "../../ui/Segmented";
import { openOp } from "../linking";
import { NoOps } from "../NoOps";
import { FlameGraph } from "./FlameGraph";
import { GroupTree, showInTree } from "./GroupTree";

type Shape = "tree" | "list";

export default function GroupOpsView() {
  const query = useQuery();
  const shape: Shape = query.get("as") === "list" ? "list" : "tree";
  const choice = <ShapeToggle shape={shape} />;
  return (
    <div class={`view view-single ${shape === "tree" ? "with-flame" : ""}`}>
      <h1 class="visually-hidden">{t("Group ops")}</h1>
      {shape === "tree" && <FlameGraph />}
      {shape === "tree" ? (
        <GroupTree query={query} choice={choice} />
      ) : (
        <GroupList choice={choice} />
      )}
    </div>
  );
}

function ShapeToggle({ shape }: { shape: Shape }) {
  const choices = [
    ["tree", t("Tree")],
    ["list", t("List")],
  ] as const;
  return (
    <Segmented
      label={t("Shape")}
      choices={choices}
      value={shape}
      onChange={(value) => navigate({ as: value === "tree" ? null : value })}
    />
  );
}

function GroupList({ choice }: { choice: JSX.Element }) {
  return (
    <UrlTable
      spec={GROUPS_TABLE}
      path="group-ops/"
      caption={t("Groups and ops")}
      title={
        <>
          <h2>{t("Groups and ops")}</h2>
          {choice}
        </>
      }
      onSelect={(row) => (row.kind === "op" ? openOp(row.id) : showInTree(row))}
      whenEmpty={<NoOps />}
    />
  );
}
