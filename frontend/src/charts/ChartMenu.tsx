/** Saves a chart as a picture of what the page shows. */

import { useState } from "preact/hooks";
import { t } from "../i18n";
import { saveBlob } from "../lib/saveBlob";
import { useScope } from "../state/scope";
import { Button } from "../ui/Button";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/Popover";
import { pictureFile, pictureOf } from "./picture";

/** Pixels of a PNG for each of the drawing: sharp in print. */
const PNG_SCALE = 2;
/** What the section of the menu draws. */
const CHARTS = ".chart, .points, .bars, .stacked";

const FORMATS = [
  { format: "png", label: "PNG" },
  { format: "svg", label: "SVG" },
] as const;

type Format = (typeof FORMATS)[number]["format"];

function safeName(text: string): string {
  return text.replace(/[^\p{L}\p{N}._-]+/gu, "_");
}

export function ChartMenu({ figure }: { figure: string }) {
  const scope = useScope();
  const [message, setMessage] = useState("");
  const save = async (menu: Element, format: Format) => {
    setMessage(t("Drawing…"));
    try {
      const chart = menu.closest("section")?.querySelector(CHARTS);
      if (chart == null) throw new Error("no chart");
      const profile = scope.profile.name ?? scope.profile.file_name;
      const name = safeName(`${profile}_${figure}_aggregation${scope.aggregation.id}.${format}`);
      saveBlob(await pictureFile(pictureOf(chart), format, PNG_SCALE), name);
      setMessage(t("Saved"));
    } catch {
      setMessage(t("Could not draw the picture"));
    }
  };
  return (
    <MenuButton
      label={t("Save the chart")}
      class="icon-button"
      face={<Icon name="download" />}
      align="end"
    >
      <div class="menu-list">
        {FORMATS.map(({ format, label }) => (
          <Button
            key={format}
            class="menu-item"
            onClick={(event) => void save(event.currentTarget, format)}
          >
            {label}
          </Button>
        ))}
        <p class="menu-note" role="status">
          {message}
        </p>
      </div>
    </MenuButton>
  );
}
