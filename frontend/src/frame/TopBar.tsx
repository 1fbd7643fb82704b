/** The bar at the top: product, profile, search, theme, help. It never scrolls away. */

import { isReport } from "../api/source";
import { chooseLanguage, LANGUAGES, language, t } from "../i18n";
import { currentQuery, navigate } from "../state/location";
import { patchForView } from "../state/query";
import { useScope } from "../state/scope";
import { toggleTheme, useTheme } from "../state/theme";
import { Button, IconButton } from "../ui/Button";
import { Icon } from "../ui/icons";
import { PageAnchor } from "../ui/PageLink";
import { useCopy } from "../ui/states";
import { ReportPart } from "./ReportPart";
import { ScopeBox, type ScopeBoxProps } from "./ScopeBox";

export interface TopBarProps {
  readonly onHelp: () => void;
  readonly onProfiles: () => void;
  readonly onMenu: () => void;
  readonly onSearch: () => void;
}

export function TopBar(props: TopBarProps & ScopeBoxProps) {
  const { view, onHelp, onProfiles, onMenu, onSearch } = props;
  const theme = useTheme();
  const themeLabel = theme === "dark" ? t("Use the light theme") : t("Use the dark theme");
  return (
    <header class="topbar">
      <IconButton icon="menu" label={t("Navigation")} class="only-narrow" onClick={onMenu} />
      <Brand />
      <span class="topbar-slash" aria-hidden="true">
        /
      </span>
      <ProfilePicker />
      {!isReport() && <ProfilesButton onClick={onProfiles} />}
      <ScopeBox {...props} />
      <SearchButton onClick={onSearch} />
      <div class="topbar-end">
        <ReportPart />
        {!isReport() && <CopyLink />}
        <LanguagePicker />
        <DocsLink view={view} />
        <FeedbackLink view={view} />
        <IconButton
          icon={theme === "dark" ? "sun" : "moon"}
          label={themeLabel}
          title={`${themeLabel} (t)`}
          class="only-broad"
          onClick={toggleTheme}
        />
        <IconButton icon="help" label={t("Help")} title={t("Help (?)")} onClick={onHelp} />
      </div>
    </header>
  );
}

/** The documentation of the view that is open; it comes with the viewer, from this server. */
function DocsLink({ view }: { view: string }) {
  const label = t("Documentation");
  return (
    <PageAnchor to={{ docs: view }} class="icon-button only-broad" label={label} title={label}>
      <Icon name="book" />
    </PageAnchor>
  );
}

/** Copies the address, which contains all that the page shows. */
function CopyLink() {
  const [isCopied, copy] = useCopy(() => window.location.href);
  return (
    <>
      <IconButton
        icon={isCopied ? "check" : "link"}
        label={t("Copy the link to this page")}
        onClick={copy}
      />
      <span class="visually-hidden" role="status">
        {isCopied ? t("Copied") : ""}
      </span>
    </>
  );
}

/** The configured address for feedback, or a mail to it with useful details; null: there is none. */
export function feedbackHref(view: string, version: string | null): string | null {
  const address = document.getElementById("app")?.dataset.feedback ?? "";
  if (address === "") return null;
  if (/^https?:\/\//.test(address)) return address;
  const subject = encodeURIComponent(`DLProf Viewer ${version ?? ""}`.trim());
  const body = encodeURIComponent(
    `\n\n--\n${view}; ${window.location.href}; ${navigator.userAgent}`,
  );
  return `mailto:${address.replace(/^mailto:/, "")}?subject=${subject}&body=${body}`;
}

function FeedbackLink({ view }: { view: string }) {
  const version = useScope().profile.system_config.viewer_version;
  const href = feedbackHref(view, version);
  if (href === null) return null;
  return (
    <a
      class="icon-button only-roomy"
      href={href}
      target="_blank"
      rel="noopener noreferrer"
      aria-label={t("Send feedback")}
      title={t("Send feedback")}
    >
      <Icon name="mail" />
    </a>
  );
}

/** The languages under their own names, for who cannot read the others. */
function LanguagePicker() {
  return (
    <select
      class="select topbar-language"
      aria-label={t("Language")}
      title={t("Language")}
      value={language}
      onChange={(event) => chooseLanguage(event.currentTarget.value === "zh" ? "zh" : "en")}
    >
      {LANGUAGES.map((item) => (
        <option key={item.id} value={item.id} lang={item.id}>
          {item.name}
        </option>
      ))}
    </select>
  );
}

export function Brand() {
  return (
    <PageAnchor class="brand" to={{ view: "dashboard" }}>
      <svg width="20" height="20" viewBox="0 0 32 32" aria-hidden="true">
        <rect class="brand-back" width="32" height="32" rx="7" />
        <rect x="7" y="15" width="4.5" height="10" rx="1.2" fill="#8bd08f" />
        <rect x="13.75" y="7" width="4.5" height="18" rx="1.2" fill="#2fa35a" />
        <rect x="20.5" y="11" width="4.5" height="14" rx="1.2" fill="#3b7dd8" />
      </svg>
      <span>DLProf Viewer</span>
    </PageAnchor>
  );
}

function profileLabel(item: { name: string | null; file_name: string }): string {
  return item.name === null || item.name === "" ? item.file_name : item.name;
}

/** The profile's name; a list to choose from when the server has several. */
function ProfilePicker() {
  const { profiles, profile } = useScope();
  if (profiles.length < 2) {
    return (
      <span class="topbar-profile" title={profile.file_name}>
        {profileLabel(profile)}
      </span>
    );
  }
  const choose = (id: string) => {
    const view = currentQuery().get("view") ?? "dashboard";
    const other = { aggregation: null, domain: null, profile: id };
    navigate({ ...patchForView(currentQuery(), view), ...other });
  };
  return (
    <select
      class="select topbar-profile"
      aria-label={t("Profile")}
      title={profile.file_name}
      value={String(profile.id)}
      onChange={(event) => choose(event.currentTarget.value)}
    >
      {profiles.map((item) => (
        <option key={item.id} value={String(item.id)}>
          {profileLabel(item)}
          {item.error == null ? "" : ` (${t("unavailable")})`}
        </option>
      ))}
    </select>
  );
}

/** Opens the list of profiles, where one is added, renamed or deleted. */
export function ProfilesButton({ onClick }: { onClick: () => void }) {
  return (
    <IconButton
      icon="folder"
      label={t("Profiles")}
      title={t("Add, rename or delete profiles")}
      onClick={onClick}
    />
  );
}

/** Opens the search everywhere. */
function SearchButton({ onClick }: { onClick: () => void }) {
  return (
    <Button
      class="topbar-search"
      title={t("Search everywhere (Ctrl K)")}
      aria-label={t("Search everywhere")}
      aria-keyshortcuts="Control+K"
      onClick={onClick}
    >
      <Icon name="search" size={14} />
      <span>{t("Search")}</span>
      <kbd data-keys="⌃K" />
    </Button>
  );
}
