/** Search everywhere (ctrl-k): views, settings, profiles, ops, kernels and modules, by keys alone. */

import { useEffect, useId, useState } from "preact/hooks";
import type { Params } from "../api/client";
import type { ListPage } from "../api/lists";
import type { GroupOpsRow, KernelsRow, OpsRow } from "../api/types";
import { useResource } from "../api/useResource";
import { t } from "../i18n";
import { currentQuery, navigate, patchToView } from "../state/location";
import { patchForView } from "../state/query";
import { scopedUrl, useScope } from "../state/scope";
import { useDebounced } from "../table/useDebounced";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/icons";
import { Name } from "../ui/Name";
import { openOp } from "../views/linking";
import { viewsOf } from "../views/registry";

/** Results of each kind. */
const SHOWN = 6;

export interface Command {
  readonly title: string;
  readonly run: () => void;
}

interface Result extends Command {
  readonly id: string;
  readonly note?: string;
  readonly isName?: boolean;
}

interface Kind {
  readonly title: string;
  readonly results: readonly Result[];
}

interface Kinds {
  readonly kinds: readonly Kind[];
  /** Nothing more is to come for what was typed. */
  readonly isComplete: boolean;
}

/** Whether every word of the search is in the title. */
export function fits(title: string, search: string): boolean {
  const low = title.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => low.includes(word));
}

/** What the server found; null until it has answered. */
function useFound<Row>(path: string, text: string, asked: Params): readonly Row[] | null {
  const scope = useScope();
  const params = { page_size: 10, ordering: "-gpu_time_ns", ...asked };
  const found = useResource<ListPage<Row>>(text === "" ? null : scopedUrl(scope, path, params));
  if (found.isLoading) return null;
  return text === "" ? [] : (found.data?.results ?? []).slice(0, SHOWN);
}

/**
 * `typed` filters what is at hand, `text` is what the server is asked for a moment later.
 *
 * Its answers are shown together: one that came later would move the mark to another result while
 * Enter is pressed.
 */
function useKinds(typed: string, text: string, settings: readonly Command[]): Kinds {
  const scope = useScope();
  const { profile, profiles } = scope;
  const ops = useFound<OpsRow>("ops/", text, { op_name__icontains: text });
  const kernels = useFound<KernelsRow>("kernels/", text, { search: text });
  const modules = useFound<GroupOpsRow>("group-ops/", text, {
    kind__in: "group",
    name__icontains: text,
  });
  const inView = (view: string, patch: Readonly<Record<string, string | null>>) =>
    navigate({ ...patchForView(currentQuery(), view), ...patch });
  const kinds: readonly Kind[] = [
    {
      title: t("Views"),
      results: viewsOf(scope).map((view) => ({
        id: `view-${view.id}`,
        title: view.title,
        note: `g ${view.letter}`,
        run: () => navigate(patchToView(view.id)),
      })),
    },
    {
      title: t("Settings"),
      results: settings.map((command, index) => ({ ...command, id: `setting-${index}` })),
    },
    {
      title: t("Profiles"),
      results: profiles
        .filter((item) => item.id !== profile.id)
        .map((item) => ({
          id: `profile-${item.id}`,
          title: item.name ?? item.file_name,
          run: () => inView("dashboard", { profile: item.id, aggregation: null, domain: null }),
        })),
    },
  ];
  const found: readonly Kind[] = [
    {
      title: t("Ops"),
      results: (ops ?? []).map((op) => ({
        id: `op-${op.op_id}`,
        title: op.op_name ?? op.op_id,
        note: op.direction ?? "",
        isName: true,
        run: () => openOp(op.op_id),
      })),
    },
    {
      title: t("Kernels"),
      results: (kernels ?? []).map((kernel, index) => ({
        id: `kernel-${index}`,
        title: kernel.readable_name ?? kernel.kernel_name ?? "",
        note: kernel.op_name ?? "",
        isName: true,
        run: () =>
          inView("ops", { op: kernel.op_id ?? null, "kernels.q": kernel.kernel_name ?? null }),
      })),
    },
    {
      title: t("Modules"),
      results: (modules ?? []).map((group) => ({
        id: `module-${group.name}`,
        title: group.name,
        isName: true,
        run: () => inView("group-ops", { "groups.q": group.name }),
      })),
    },
  ];
  const named = kinds.map(({ title, results }) => ({
    title,
    results: results.filter((result) => fits(result.title, typed)),
  }));
  const isComplete = typed === text && ops !== null && kernels !== null && modules !== null;
  const shown = isComplete ? [...named, ...found] : named;
  return { kinds: shown.filter((kind) => kind.results.length > 0), isComplete };
}

export function SearchDialog(props: { settings: readonly Command[]; onClose: () => void }) {
  const { settings, onClose } = props;
  const [search, setSearch] = useState("");
  const [text, setText] = useDebounced(search, (next) => setSearch(next.trim()));
  const { kinds, isComplete } = useKinds(text.trim(), search, settings);
  const results = kinds.flatMap((kind) => kind.results);
  const [marked, setMarked] = useState(0);
  const current = results[Math.min(marked, results.length - 1)];
  const listId = useId();
  // biome-ignore lint/correctness/useExhaustiveDependencies: another search starts from the top
  useEffect(() => setMarked(0), [text]);
  const choose = (result: Result) => {
    onClose();
    result.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };
    const step = steps[event.key];
    // Chromium would only empty the field.
    if (event.key === "Escape") onClose();
    else if (event.key === "Enter" && current !== undefined) choose(current);
    else if (step !== undefined && results.length > 0) {
      setMarked((marked + step + results.length) % results.length);
    } else return;
    event.preventDefault();
  };
  useEffect(() => {
    if (current !== undefined) {
      document.getElementById(`${listId}-${current.id}`)?.scrollIntoView({ block: "nearest" });
    }
  }, [current, listId]);
  return (
    <Dialog title={t("Search everywhere")} onClose={onClose}>
      <div class="palette">
        <span class="table-search">
          <Icon name="search" size={14} />
          <input
            type="search"
            // biome-ignore lint/a11y/noRedundantRoles: the list is no datalist
            role="combobox"
            list={undefined}
            aria-expanded="true"
            aria-controls={listId}
            aria-activedescendant={current === undefined ? undefined : `${listId}-${current.id}`}
            aria-label={t("Search everywhere")}
            placeholder={t("Ops, kernels, modules, views, profiles, settings")}
            data-initial
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={onKeyDown}
          />
        </span>
        <div id={listId} class="palette-list" role="listbox" aria-label={t("Results")}>
          {kinds.map((kind) => (
            // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be in a list box
            <div key={kind.title} role="group" aria-label={kind.title}>
              <div class="palette-kind" aria-hidden="true">
                {kind.title}
              </div>
              {kind.results.map((result) => (
                // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are heard in the search field
                <div
                  key={result.id}
                  id={`${listId}-${result.id}`}
                  class="palette-item"
                  role="option"
                  tabIndex={-1}
                  aria-selected={result === current}
                  onClick={() => choose(result)}
                >
                  <span class="palette-title">
                    {result.isName === true ? <Name name={result.title} /> : result.title}
                  </span>
                  {result.note !== undefined && <span class="palette-note">{result.note}</span>}
                </div>
              ))}
            </div>
          ))}
        </div>
        <p class="visually-hidden" role="status">
          {t("{count} results", { count: results.length })}
        </p>
        {isComplete && results.length === 0 && <p class="error-hint">{t("Nothing found")}</p>}
      </div>
    </Dialog>
  );
}
