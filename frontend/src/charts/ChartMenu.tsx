/** Saves a figure as a picture: the server's figure, drawn at the size of a page. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { getJson, type Params } from "../api/client";
import { t } from "../i18n";
import { scopedUrl, useScope } from "../state/scope";
import { currentTheme } from "../state/theme";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/Popover";
import type { Figure } from "./FigureChart";
import { loadPlotly } from "./plotly";

const WIDTH = 1200;
const HEIGHT = 600;
/** Pixels of a PNG for each of the drawing: sharp in print. */
const PNG_SCALE = 2;

const FORMATS = [
  { format: "png", label: "PNG" },
  { format: "svg", label: "SVG" },
] as const;

type Format = (typeof FORMATS)[number]["format"];

/** On the page charts have no ground of their own; a picture needs one. */
function withGround(figure: Figure): Figure {
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
  const margin = { l: 64, r: 24, t: 48, b: 56 };
  const layout = { ...figure.layout, margin, paper_bgcolor: ground, plot_bgcolor: ground };
  return { data: figure.data, layout };
}

function safeName(text: string): string {
  return text.replace(/[^\p{L}\p{N}._-]+/gu, "_");
}

export function ChartMenu({ figure, params }: { figure: string; params?: Params }): JSX.Element {
  const scope = useScope();
  const [message, setMessage] = useState("");
  const save = async (format: Format) => {
    setMessage(t("Drawing…"));
    try {
      const url = scopedUrl(scope, `figures/${figure}/`, { ...params, theme: currentTheme() });
      const [answer, plotly] = await Promise.all([getJson<Figure>(url), loadPlotly()]);
      const profile = scope.profile.name ?? scope.profile.file_name;
      await plotly.downloadImage(withGround(answer), {
        format,
        width: WIDTH,
        height: HEIGHT,
        scale: format === "png" ? PNG_SCALE : 1,
        filename: safeName(`${profile}_${figure}_aggregation${scope.aggregation.id}`),
      });
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
          <button key={format} type="button" class="menu-item" onClick={() => void save(format)}>
            {label}
          </button>
        ))}
        <p class="menu-note" role="status">
          {message}
        </p>
      </div>
    </MenuButton>
  );
}
