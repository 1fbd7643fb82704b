/** The frame around the views: loads and checks the profile in the address once for all of them. */

import { createContext, type JSX } from "preact";
import {
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useMemo,
  useState,
} from "preact/hooks";
import { ApiError, toApiError } from "./api/client";
import { useIsServerLost } from "./api/connection";
import { isReport } from "./api/source";
import { forgetResources } from "./api/useResource";
import { AggregationsDialog } from "./frame/AggregationsDialog";
import { DocsDialog } from "./frame/DocsDialog";
import { HelpDialog } from "./frame/HelpDialog";
import { JobPanel } from "./frame/JobPanel";
import { JobsDialog } from "./frame/JobsDialog";
import { NavPane, ViewTabs } from "./frame/NavPane";
import { ProfilesDialog } from "./frame/profiles/ProfilesDialog";
import { SearchDialog } from "./frame/SearchDialog";
import { Brand, ProfilesButton, TopBar } from "./frame/TopBar";
import { chooseLanguage, LANGUAGES, language, t } from "./i18n";
import { JobContext, type JobControl, useJob } from "./state/jobs";
import { focusSearch, useSearchKey, useShortcuts } from "./state/keyboard";
import {
  currentQuery,
  isOutside,
  navigate,
  openDocs,
  patchToView,
  useQuery,
} from "./state/location";
import type { Query } from "./state/query";
import { type Scope, ScopeContext, useScopeResult } from "./state/scope";
import { readStored, writeStored } from "./state/storage";
import { toggleTheme } from "./state/theme";
import { Button } from "./ui/Button";
import { ErrorPage } from "./ui/ErrorPage";
import { Icon } from "./ui/icons";
import { Empty, Skeleton } from "./ui/states";
import { KeyNodeDialog } from "./views/iterations/KeyNodeDialog";
import { findDocs, findView, VIEWS, type ViewSpec } from "./views/registry";

/** Opens the list of profiles; it outlives whatever the page shows below it. */
const ProfilesContext = createContext<() => void>(() => undefined);

export function App() {
  const query = useQuery();
  const [isProfilesOpen, setProfilesOpen] = useState(false);
  const open = useCallback(() => setProfilesOpen(true), []);
  return (
    <ProfilesContext.Provider value={open}>
      <Page />
      <LostNotice />
      {isProfilesOpen && (
        <ProfilesDialog
          shown={query.get("profile") ?? null}
          onClose={() => setProfilesOpen(false)}
        />
      )}
    </ProfilesContext.Provider>
  );
}

/** One for the whole page, whatever it was that had no answer. */
function LostNotice() {
  const isLost = useIsServerLost();
  if (!isLost) return null;
  return (
    <div class="lost" role="alert">
      <Icon name="alert" />
      <p>
        <b>{t("The viewer's server does not respond.")}</b>{" "}
        {t("Is dlprofviewer still running in its terminal? The page goes on when it answers.")}
      </p>
    </div>
  );
}

function Page() {
  const query = useQuery();
  const result = useScopeResult(query);
  const view = findView(query.get("view"));
  if (isOutside()) return <Bare>{<ErrorPage error={noPage()} />}</Bare>;
  if (view === null) {
    return <Bare>{<ErrorPage error={unknownView(query.get("view") ?? "")} />}</Bare>;
  }
  if (result.state === "error") {
    return (
      <Bare>
        {<ErrorPage error={result.error} onRetry={result.retry} profiles={result.profiles} />}
      </Bare>
    );
  }
  if (result.state === "loading") return <Shell />;
  if (result.state === "empty") {
    return (
      <Bare>
        <Empty title={t("No profile is open")}>
          {t("Add one with the button above, or start the viewer with a database:")}{" "}
          <code>dlprofviewer dlprof_dldb.sqlite</code>
        </Empty>
      </Bare>
    );
  }
  return (
    <ScopeContext.Provider value={result.scope}>
      <Frame scope={result.scope} query={query} view={view} key={result.scope.profile.id} />
    </ScopeContext.Provider>
  );
}

function noPage(): ApiError {
  return new ApiError(404, {
    code: "NOT_FOUND",
    message: t("There is no page at {path}.", { path: window.location.pathname }),
    hint: t("The viewer is a single page; the view and the profile are parameters of its address."),
  });
}

function unknownView(id: string): ApiError {
  return new ApiError(400, {
    code: "BAD_ADDRESS",
    message: t("There is no view “{id}”.", { id }),
    hint: t("The views are: {names}.", { names: VIEWS.map((view) => view.id).join(", ") }),
  });
}

/** The page while it is not known what to show: as the first HTML has it (shell.html). */
function Shell() {
  return (
    <div class="frame">
      <header class="topbar">
        <Brand />
      </header>
      <div class="nav" />
      <main class="content">
        <div class="shell">
          <Skeleton lines={8} height={20} />
        </div>
      </main>
    </div>
  );
}

/** The page while there is no profile to show. */
function Bare({ children }: { children: JSX.Element }) {
  const openProfiles = useContext(ProfilesContext);
  return (
    <div class="bare">
      <header class="topbar">
        <Brand />
        <ProfilesButton onClick={openProfiles} />
      </header>
      <main>{children}</main>
    </div>
  );
}

/** Re-aggregation, with the list of aggregations kept up to date. */
function useProfileJob(scope: Scope): JobControl {
  const jobs = useJob(scope.profile.id);
  const { job } = jobs;
  const isElsewhere = (job?.result_profile_id ?? scope.profile.id) !== scope.profile.id;
  const newId = job?.state === "done" && !isElsewhere ? job.aggregation_id : null;
  const isListed = scope.aggregations.some((item) => item.id === newId);
  const { reloadAggregations } = scope;
  useEffect(() => {
    if (newId === null || isListed) return;
    forgetResources("/jobs/");
    reloadAggregations();
  }, [newId, isListed, reloadAggregations]);
  return jobs;
}

function useFrameShortcuts(onHelp: () => void, onFold: () => void, onSearch: () => void): void {
  useSearchKey(onSearch);
  const shortcuts = useMemo(
    () => ({
      go: Object.fromEntries(
        VIEWS.map((view) => [view.letter, () => navigate(patchToView(view.id))]),
      ),
      keys: { "/": () => focusSearch() || onSearch(), "?": onHelp, "[": onFold, t: toggleTheme },
    }),
    [onHelp, onFold, onSearch],
  );
  useShortcuts(shortcuts);
}

/** Writes what the address leaves open: a link shows the same, whatever was added meanwhile. */
function useWholeAddress(query: Query, scope: Scope): void {
  const profile = isReport() ? null : scope.profile.id;
  const aggregation = String(scope.aggregation.id);
  useEffect(() => {
    // Effects may run as late as when the page is drawn for the next address. To write that of the
    // drawing before then would draw that one, whose effect writes this one, and so on without end.
    if (currentQuery() === query) navigate({ profile, aggregation }, { replace: true });
  }, [query, profile, aggregation]);
}

type DialogName = "aggregations" | "help" | "jobs" | "key node" | "search";

interface FrameProps {
  /** The address that the scope was chosen by. */
  readonly query: Query;
  readonly scope: Scope;
  readonly view: ViewSpec;
}

function Frame({ query, scope, view }: FrameProps) {
  const jobs = useProfileJob(scope);
  useWholeAddress(query, scope);
  const docsPage = query.get("docs");
  const docs = docsPage === undefined ? null : findDocs(docsPage);
  const [dialog, setDialog] = useState<DialogName | null>(null);
  const close = () => setDialog(null);
  const openProfiles = useContext(ProfilesContext);
  const [isSheetOpen, setSheetOpen] = useState(false);
  const [isFolded, setFolded] = useState(() => readStored("nav") === "folded");
  const openHelp = useCallback(() => setDialog("help"), []);
  const fold = useCallback(() => {
    setFolded((before) => {
      writeStored("nav", before ? null : "folded");
      return !before;
    });
  }, []);
  const openSearch = useCallback(() => setDialog("search"), []);
  useFrameShortcuts(openHelp, fold, openSearch);
  const settings = [
    { title: t("Switch between light and dark"), run: toggleTheme },
    { title: t("Fold or unfold the navigation"), run: fold },
    ...LANGUAGES.filter((item) => item.id !== language).map((item) => ({
      title: `${t("Language")}: ${item.name}`,
      run: () => chooseLanguage(item.id),
    })),
    { title: t("Documentation"), run: openDocs },
    { title: t("Keyboard and help"), run: openHelp },
    ...(isReport()
      ? []
      : [
          { title: t("Add, rename or delete profiles"), run: openProfiles },
          {
            title: t("Name, delete or prefer aggregations"),
            run: () => setDialog("aggregations"),
          },
          { title: t("Select key node"), run: () => setDialog("key node") },
          { title: t("Jobs"), run: () => setDialog("jobs") },
        ]),
  ];
  useEffect(() => {
    document.title = `${view.title} – ${scope.profile.name ?? scope.profile.file_name}`;
  }, [view.title, scope.profile]);

  return (
    <JobContext.Provider value={jobs}>
      <div class={`frame ${isFolded ? "is-folded" : ""} ${isSheetOpen ? "is-sheet-open" : ""}`}>
        <a class="skip-link" href="#content">
          {t("Skip to the content")}
        </a>
        <TopBar
          view={view.id}
          onHelp={openHelp}
          onProfiles={openProfiles}
          onMenu={() => setSheetOpen(!isSheetOpen)}
          onSearch={openSearch}
          onAggregations={() => setDialog("aggregations")}
        />
        <NavPane
          view={view.id}
          isFolded={isFolded}
          onFold={fold}
          onNavigate={() => setSheetOpen(false)}
          onJobs={() => setDialog("jobs")}
          jobs={jobs}
        />
        <ViewTabs view={view.id} />
        {isSheetOpen && (
          <Button
            class="sheet-backdrop"
            aria-label={t("Close the navigation")}
            onClick={() => setSheetOpen(false)}
          />
        )}
        <main id="content" class="content" tabIndex={-1}>
          <ViewBoundary view={view} key={view.id} />
        </main>
        <JobPanel jobs={jobs} />
        {docs !== null && (
          <DocsDialog page={docs.id} title={docs.title} onClose={() => navigate({ docs: null })} />
        )}
        {dialog === "aggregations" && (
          <AggregationsDialog jobs={jobs} onClose={close} onKeyNode={() => setDialog("key node")} />
        )}
        {dialog === "key node" && (
          <KeyNodeDialog current={scope.aggregation.key_node} onClose={close} />
        )}
        {dialog === "search" && <SearchDialog settings={settings} onClose={close} />}
        {dialog === "jobs" && <JobsDialog onClose={close} />}
        {dialog === "help" && (
          <HelpDialog version={scope.profile.system_config.viewer_version} onClose={close} />
        )}
      </div>
    </JobContext.Provider>
  );
}

/** A fault in one view leaves the frame, and the way to the others, alive. */
function ViewBoundary({ view }: { view: ViewSpec }) {
  const [error, reset] = useErrorBoundary();
  if (error !== undefined) return <ErrorPage error={toApiError(error)} onRetry={reset} />;
  const View = view.component;
  return <View />;
}
