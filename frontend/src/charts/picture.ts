/** A chart as a picture: its shapes and texts, where the page has them, as one SVG document. */

const SVG = "http://www.w3.org/2000/svg";
/** What style sheets give the parts of a drawing: a file has no style sheet. */
const STYLED = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin"],
  ...["opacity", "display", "paint-order", "text-anchor"],
  ...["font-family", "font-size", "font-weight"],
];
const MARGIN = 16;
/** Share of a line of text above its base line; fonts differ by a few percent. */
const ABOVE_BASE_LINE = 0.8;

/** The sides of what was drawn so far, in pixels of the window. */
interface Bounds {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

function shape(name: string, attributes: Readonly<Record<string, string | number>>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function grow(bounds: Bounds, box: DOMRect): void {
  bounds.left = Math.min(bounds.left, box.left);
  bounds.top = Math.min(bounds.top, box.top);
  bounds.right = Math.max(bounds.right, box.right);
  bounds.bottom = Math.max(bounds.bottom, box.bottom);
}

/** A drawing within the chart, with the styles that its parts have on the page. */
function drawingOf(svg: SVGSVGElement, box: DOMRect): SVGElement {
  const copy = svg.cloneNode(true) as SVGElement;
  const originals = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  [copy, ...copy.querySelectorAll<SVGElement>("*")].forEach((part, place) => {
    const style = getComputedStyle(originals[place] as SVGElement);
    for (const name of STYLED) part.style.setProperty(name, style.getPropertyValue(name));
    part.removeAttribute("class");
  });
  const { left: x, top: y, width, height } = box;
  for (const [key, value] of Object.entries({ x, y, width, height })) {
    copy.setAttribute(key, String(value));
  }
  return copy;
}

/** A line of text each: a narrow place breaks a text into several. */
function textsOf(node: Text, style: CSSStyleDeclaration): [SVGElement, DOMRect][] {
  const range = document.createRange();
  range.selectNodeContents(node);
  const isOneLine = range.getClientRects().length < 2;
  const pieces = isOneLine ? [...node.data.matchAll(/^.*$/gs)] : [...node.data.matchAll(/\S+/g)];
  return pieces.flatMap(({ 0: piece, index }) => {
    range.setStart(node, index);
    range.setEnd(node, index + piece.length);
    const box = range.getBoundingClientRect();
    if (piece.trim() === "" || box.width === 0) return [];
    const text = shape("text", {
      x: box.left,
      y: box.top + ABOVE_BASE_LINE * box.height,
      textLength: box.width,
      fill: style.color,
      "font-family": style.fontFamily,
      "font-size": style.fontSize,
      "font-weight": style.fontWeight,
    });
    text.textContent = piece.trim();
    return [[text, box]];
  });
}

/** The ground of an element, hatched as the page hatches it; null: it has none. */
function groundOf(box: DOMRect, style: CSSStyleDeclaration): SVGElement | null {
  const color = style.backgroundColor;
  if (/^rgba\(.*, 0\)$/.test(color) || color === "transparent") return null;
  const at = { x: box.left, y: box.top, width: box.width, height: box.height };
  const group = shape("g", {});
  const corner = Number.parseFloat(style.borderTopLeftRadius) || 0;
  group.append(shape("rect", { ...at, rx: corner, fill: color }));
  if (style.backgroundImage !== "none") {
    const lines = shape("svg", { ...at, stroke: "white", "stroke-opacity": 0.6 });
    for (let x = -box.height; x < box.width; x += 5) {
      lines.append(shape("line", { x1: x, y1: box.height, x2: x + box.height, y2: 0 }));
    }
    group.append(lines);
  }
  return group;
}

function draw(element: Element, onto: SVGElement, bounds: Bounds): void {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  // One pixel: text for screen readers only.
  if (style.display === "none" || style.visibility === "hidden" || box.width <= 1) return;
  if (element instanceof SVGSVGElement) {
    onto.append(drawingOf(element, box));
    grow(bounds, box);
    return;
  }
  const ground = groundOf(box, style);
  if (ground !== null) {
    onto.append(ground);
    grow(bounds, box);
  }
  for (const child of element.childNodes) {
    if (child instanceof Element) draw(child, onto, bounds);
    if (!(child instanceof Text)) continue;
    for (const [text, place] of textsOf(child, style)) {
      onto.append(text);
      grow(bounds, place);
    }
  }
}

/** The picture of an element: also what is scrolled out of its sight. */
export function pictureOf(element: Element): SVGElement {
  const picture = shape("svg", { xmlns: SVG });
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
  const all = shape("rect", { fill: ground });
  picture.append(all);
  const box = element.getBoundingClientRect();
  const bounds = { left: box.left, top: box.top, right: box.right, bottom: box.top };
  draw(element, picture, bounds);
  const [x, y] = [bounds.left - MARGIN, bounds.top - MARGIN];
  const width = bounds.right - bounds.left + 2 * MARGIN;
  const height = bounds.bottom - bounds.top + 2 * MARGIN;
  for (const [name, value] of Object.entries({ x, y, width, height })) {
    all.setAttribute(name, String(value));
  }
  picture.setAttribute("width", String(width));
  picture.setAttribute("height", String(height));
  picture.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  return picture;
}

/** The file of a picture; `scale` are pixels of a PNG for each of the page. */
export async function pictureFile(
  picture: SVGElement,
  format: "png" | "svg",
  scale: number,
): Promise<Blob> {
  const text = new XMLSerializer().serializeToString(picture);
  if (format === "svg") return new Blob([text], { type: "image/svg+xml" });
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(image.width * scale);
  canvas.height = Math.round(image.height * scale);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob === null ? reject(new Error("no picture")) : resolve(blob)));
  });
}
