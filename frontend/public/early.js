// Runs while the page's program still loads: asks the server for what every view begins with, the
// list of profiles, then the chosen profile and its aggregations. The program takes the answers
// over (src/api/early.ts); what goes wrong here it asks again itself.
(() => {
  const prefix = document.querySelector('meta[name="dlprof-prefix"]')?.content ?? "";
  if (window.location.pathname.replace(/\/$/, "") !== prefix) return;
  const wanted = new URLSearchParams(window.location.search);
  let language = null;
  try {
    language = window.localStorage.getItem("dlprof.language");
  } catch {
    // Storage may be turned off.
  }
  const headers = { Accept: "application/json" };
  const asked = [wanted.get("lang"), language].find((one) => one === "en" || one === "zh");
  if (asked !== undefined) headers["Accept-Language"] = asked;
  const answers = new Map();
  window.dlprofEarly = answers;
  const ask = (path) => {
    const url = `${prefix}/api/v1/${path}`;
    const answer = fetch(url, { credentials: "same-origin", headers }).then(async (response) => {
      if (!response.ok) throw new Error(response.statusText);
      return response.json();
    });
    answer.catch(() => undefined);
    answers.set(url, answer);
    return answer;
  };
  const askProfile = (id) => {
    ask(`profiles/${id}/`);
    ask(`profiles/${id}/aggregations/?page_size=200`);
  };
  const profiles = ask("profiles/");
  const named = wanted.get("profile");
  profiles
    .then(({ results }) => {
      const chosen = named === null ? results[0] : results.find(({ id }) => String(id) === named);
      if (chosen !== undefined && !chosen.error) askProfile(chosen.id);
    })
    .catch(() => undefined);
})();
