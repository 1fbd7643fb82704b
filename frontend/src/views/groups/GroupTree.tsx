/** The tree table of the groups. The server gives the rows below a group when it is opened. */

import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import type { ListPage } from "../../api/lists";
import { isReport } from "../../api/source";
import type { GroupOpsRow } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { formatInt } from "../../lib/units";
import { navigate } from "../../state/location";
import type { Query } from "../../state/query";
import { scopedUrl, useScope } from "../../state/scope";
import { ShareBar } from "../../table/columns";
import { TruncationNote } from "../../table/DataTable";
import { nextSort, sortDirection } from "../../table/model";
import type { CellContext, Column } from "../../table/spec";
import { GROUPS_TABLE, TREE_TABLE } from "../../table/specs/groups";
import { SortButton } from "../../table/TableHeader";
import { AboutButton, ColumnMenu, ExportMenu, SearchField } from "../../table/TableToolbar";
import { useColumns } from "../../table/useColumns";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/icons";
import { Direction, Name } from "../../ui/Name";
import { ScaleSwitch } from "../../ui/ScaleSwitch";
import { ErrorNote } from "../../ui/states";
import { openOp } from "../linking";
import { NoOps } from "../NoOps";
import { keyAction, levelParams, openPathOf, readOpen, toggled, writeOpen } from "./openGroups";

/** Rows that a group shows before the button for more. */
const PAGE_SIZE = 50;
const INDENT_PX = 18;
const NAME_WIDTH = 320;
const SHARE_WIDTH = 130;
const SORT = "groups.sort";
/** The tree and the list have the same search. */
const SEARCH = "groups.q";
const CONTEXT: CellContext = {
  unknown: {},
  largest: () => 0,
  isUnfolded: false,
  toggleUnfolded: () => undefined,
};

interface Tree {
  readonly figures: readonly Column<GroupOpsRow>[];
  readonly open: ReadonlySet<string>;
  readonly sort: string;
  /** Key of the row that Tab reaches. */
  readonly active: string | null;
  readonly setActive: (key: string) => void;
  readonly activate: (row: GroupOpsRow) => void;
  /** Rows that contain it are listed by their full names; empty: the tree. */
  readonly search: string;
}

export function rowKey(row: GroupOpsRow): string {
  return row.kind === "group" ? row.name : `${row.id} ${row.name}`;
}

/** The tree, open down to this group. */
export function showInTree(group: GroupOpsRow): void {
  navigate({ as: null, open: writeOpen(openPathOf(group.name)), [SEARCH]: null });
}

export function GroupTree({ query, choice }: { query: Query; choice: JSX.Element }) {
  const open = readOpen(query.get("open"));
  const sort = query.get(SORT) ?? GROUPS_TABLE.defaults.sort;
  const [active, setActive] = useState<string | null>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  const toggle = (name: string) =>
    navigate({ open: writeOpen(toggled(open, name)) }, { replace: true });
  const search = query.get(SEARCH) ?? "";
  const activate = (row: GroupOpsRow) => {
    if (row.kind !== "group") openOp(row.id);
    else if (search !== "") showInTree(row);
    else toggle(row.name);
  };
  const scope = useScope();
  const columns = useColumns(TREE_TABLE);
  const figures = columns.shown.slice(1);
  const width = figures.reduce((sum, column) => sum + column.width, SHARE_WIDTH);
  const tree: Tree = { figures, open, sort, active, setActive, activate, search };
  return (
    <section class="data-table tree-table" aria-label={t("Groups and ops")}>
      <header class="table-toolbar">
        <div class="table-tools">
          <div class="table-title">
            <h2>{t("Groups and ops")}</h2>
            {choice}
          </div>
          <AboutButton />
          <ScaleSwitch />
          <SearchField
            label={t("Search groups and ops")}
            value={search}
            class="tree-search"
            onChange={(next) => navigate({ [SEARCH]: next.trim() }, { replace: true })}
          />
          {search === "" && open.size > 0 && (
            <Button onClick={() => navigate({ open: writeOpen(new Set()) })}>
              <Icon name="minus" /> {t("Collapse all")}
            </Button>
          )}
          <ColumnMenu spec={TREE_TABLE} columns={columns} />
          <ExportMenu
            spec={GROUPS_TABLE}
            caption={t("Groups and ops")}
            columns={columns}
            chips={[]}
            exportUrl={(format) =>
              scopedUrl(scope, "group-ops/export/", { ordering: sort, format })
            }
            listUrl={(page, size) =>
              scopedUrl(scope, "group-ops/", { ordering: sort, page, page_size: size })
            }
          />
        </div>
      </header>
      <div class="table-scroll">
        <table
          role="treegrid"
          style={{ minWidth: `calc(${width}px + min(${NAME_WIDTH}px, var(--name-width)))` }}
        >
          <caption class="visually-hidden">{t("Groups and ops")}</caption>
          <TreeHeader sort={sort} figures={figures} />
          <tbody
            ref={body}
            onKeyDown={(event) => {
              const action = keyAction(event, body.current, toggle);
              if (action === null) return;
              event.preventDefault();
              action();
            }}
          >
            <Branch key={search} parent={null} tree={tree} />
          </tbody>
        </table>
      </div>
      {isReport() && <TreeCut />}
    </section>
  );
}

/** In a report: how many groups and ops it does not hold. */
function TreeCut() {
  const url = scopedUrl(useScope(), "group-ops/", { page_size: 10 });
  return (
    <TruncationNote
      cut={useResource<ListPage<GroupOpsRow>>(url).data?.cut}
      noun={GROUPS_TABLE.noun}
    />
  );
}

function TreeHeader({ sort, figures }: { sort: string; figures: readonly Column<GroupOpsRow>[] }) {
  const name = GROUPS_TABLE.columns[0] as Column<GroupOpsRow>;
  return (
    <>
      <colgroup>
        <col />
        <col style={{ width: `${SHARE_WIDTH}px` }} />
        {figures.map((column) => (
          <col key={column.key} style={{ width: `${column.width}px` }} />
        ))}
      </colgroup>
      <thead>
        <tr>
          <SortCell column={name} sort={sort} />
          <th scope="col" class="align-right" title={t("Of the GPU time of the group above")}>
            <span class="th-plain">{t("Share (%)")}</span>
          </th>
          {figures.map((column) => (
            <SortCell key={column.key} column={column} sort={sort} />
          ))}
        </tr>
      </thead>
    </>
  );
}

function SortCell({ column, sort }: { column: Column<GroupOpsRow>; sort: string }) {
  const direction = sortDirection(sort, column.key);
  const choose = () => {
    const next = nextSort(sort, column);
    navigate({ [SORT]: next === GROUPS_TABLE.defaults.sort ? null : next });
  };
  return (
    <th scope="col" class={`align-${column.align ?? "left"}`} aria-sort={direction ?? "none"}>
      <SortButton column={column} direction={direction} onClick={choose} />
    </th>
  );
}

/** All rows right below a group, and below each open one its own. */
function Branch({ parent, tree }: { parent: GroupOpsRow | null; tree: Tree }) {
  const [pages, setPages] = useState(1);
  const level = (parent?.level ?? 0) + 1;
  return (
    <>
      {Array.from({ length: pages }, (_, index) => (
        <BranchPage
          key={index}
          parent={parent}
          tree={tree}
          page={index + 1}
          more={
            index + 1 === pages
              ? (left) => (
                  <Message level={level} tree={tree}>
                    <Button class="link-button" onClick={() => setPages(pages + 1)}>
                      {t("Show {count} more", { count: formatInt(Math.min(left, PAGE_SIZE)) })}
                    </Button>{" "}
                    {t("of {count} that are not shown", { count: formatInt(left) })}
                  </Message>
                )
              : null
          }
        />
      ))}
    </>
  );
}

function BranchPage(props: {
  parent: GroupOpsRow | null;
  tree: Tree;
  page: number;
  more: ((left: number) => JSX.Element) | null;
}) {
  const { parent, tree, page } = props;
  const scope = useScope();
  const url = scopedUrl(scope, "group-ops/", {
    ...(tree.search === "" ? levelParams(parent) : { search: tree.search }),
    ordering: tree.sort,
    page,
    page_size: PAGE_SIZE,
  });
  const found = useResource<ListPage<GroupOpsRow>>(url);
  const level = (parent?.level ?? 0) + 1;
  if (found.error !== null) {
    return (
      <Message level={level} tree={tree}>
        <ErrorNote error={found.error} onRetry={found.reload} />
      </Message>
    );
  }
  if (found.data === null)
    return (
      <Message level={level} tree={tree}>
        {t("Loading…")}
      </Message>
    );
  const { count, results, unknown } = found.data;
  if (count === 0 && tree.search !== "") {
    return (
      <Message level={level} tree={tree}>
        {t("No group or op contains “{text}”", { text: tree.search })}
      </Message>
    );
  }
  if (parent === null && count === 0) {
    return (
      <Message level={level} tree={tree}>
        <NoOps reason={unknown?.["*"]} />
      </Message>
    );
  }
  const left = count - page * PAGE_SIZE;
  const whole =
    parent?.gpu_time_ns ?? results.reduce((sum, row) => sum + (row.gpu_time_ns ?? 0), 0);
  return (
    <>
      {results.map((row, index) => (
        <TreeRow
          key={rowKey(row)}
          row={row}
          tree={tree}
          whole={whole}
          isFirst={parent === null && page === 1 && index === 0}
        />
      ))}
      {left > 0 && props.more?.(left)}
    </>
  );
}

function Message(props: { level: number; tree: Tree; children: ComponentChildren }) {
  const { level, tree, children } = props;
  return (
    <tr class="tree-message">
      <td colSpan={tree.figures.length + 2} style={{ paddingLeft: `${indent(level)}px` }}>
        {children}
      </td>
    </tr>
  );
}

function indent(level: number): number {
  return 16 + (level - 1) * INDENT_PX;
}

/** Only ops on Tensor Cores have a color of their own: the others contain all kinds of kernels. */
function toneOf(row: GroupOpsRow): string {
  if (row.kind === "group") return "gpu";
  return (row.num_ops_using_tc ?? 0) > 0 ? "tc" : "gpu";
}

interface TreeRowProps {
  readonly row: GroupOpsRow;
  readonly tree: Tree;
  /** GPU time of the group above. */
  readonly whole: number;
  readonly isFirst: boolean;
}

function TreeRow({ row, tree, whole, isFirst }: TreeRowProps) {
  const key = rowKey(row);
  const isGroup = row.kind === "group";
  const isFound = tree.search !== "";
  const isOpen = isGroup && !isFound && tree.open.has(row.name);
  const isEntry = tree.active === null ? isFirst : tree.active === key;
  return (
    <>
      <tr
        class="is-selectable tree-row"
        aria-level={isFound ? 1 : (row.level ?? 1)}
        aria-expanded={isGroup && !isFound ? isOpen : undefined}
        data-name={row.name}
        tabIndex={isEntry ? 0 : -1}
        onFocus={() => tree.setActive(key)}
        onClick={() => tree.activate(row)}
      >
        <td style={{ paddingLeft: `${indent(isFound ? 1 : (row.level ?? 1))}px` }}>
          <TreeName row={row} isOpen={isOpen} isFound={isFound} />
        </td>
        <td class="align-right">
          {!isFound && (
            <ShareBar
              pct={whole > 0 ? (100 * (row.gpu_time_ns ?? 0)) / whole : 0}
              largest={100}
              tone={toneOf(row)}
            />
          )}
        </td>
        {tree.figures.map((column) => (
          <td key={column.key} class={`align-${column.align ?? "left"}`}>
            {column.cell(row, CONTEXT)}
          </td>
        ))}
      </tr>
      {isOpen && <Branch parent={row} tree={tree} />}
    </>
  );
}

function hasText(text: string | null): text is string {
  return text !== null && text !== "";
}

function TreeName(props: { row: GroupOpsRow; isOpen: boolean; isFound: boolean }) {
  const { row, isOpen, isFound } = props;
  const own = row.trimmed_name ?? "";
  const name = isFound || own === "" ? row.name : own;
  return (
    <span class={`tree-name ${row.kind === "group" ? "tree-group" : ""}`} title={row.name}>
      <span class="tree-mark">
        {row.kind === "group" && <Icon name={isOpen ? "chevronDown" : "chevronRight"} size={14} />}
      </span>
      <span class="tree-text">{isFound ? <Name name={name} /> : name}</span>
      {hasText(row.direction) && <Direction value={row.direction} />}
      {row.rank !== null && !row.name.startsWith("/rank_") && (
        <span class="tag">{t("Rank {rank}", { rank: row.rank })}</span>
      )}
    </span>
  );
}
