import { render } from "preact";
import { App } from "./app";
import { language } from "./i18n";
import { loadAllWhenIdle } from "./ui/lazy";
import "./styles/index.css";

document.documentElement.lang = language;
const root = document.getElementById("app");
if (root !== null) {
  // What the first HTML shows until here.
  root.replaceChildren();
  render(<App />, root);
}
window.addEventListener("load", loadAllWhenIdle);
