// Runs before the first paint, so the page never flashes in the wrong theme: stored choice, then
// the system's, then light. It is a file of its own because the page allows no inline script.
(() => {
  let theme = null;
  try {
    theme = window.localStorage.getItem("dlprof.theme");
  } catch {
    // Storage may be turned off; the system's choice is then good enough.
  }
  if (theme !== "light" && theme !== "dark") {
    theme = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  document.documentElement.dataset.theme = theme;
})();
