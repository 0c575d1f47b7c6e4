"use strict";
// Labels answers one after the other. Keys: 1 to 3 label, J and K go to other answers, U removes the last label.
(() => {
  const byId = (id) => document.getElementById(id);
  const [author, progress] = ["author", "progress"].map(byId);
  author.value = localStorage.getItem("ragstone author") || author.value;
  let position = -1, trace = "", last = null, isBusy = false;

  const show = async (response, focus) => {
    const text = await response.text();
    if (!response.ok) { progress.textContent = text; return; }
    const about = JSON.parse(response.headers.get("X-Label"));
    byId("none").hidden = about.total > 0;
    byId("choices").hidden = about.total === 0;
    position = about.position;
    trace = about.trace_id;
    const parsed = new DOMParser().parseFromString(text, "text/html");
    byId("item").replaceChildren(...parsed.body.childNodes);
    document.querySelectorAll(".choice").forEach((button) =>
      button.setAttribute("aria-pressed", String(about.value !== null && Number(button.dataset.value) === about.value)));
    byId("undo").disabled = last === null;
    const done = about.value === null ? "" : " Saved.";
    progress.textContent = about.total === 0 ? "" :
      "Answer " + (position + 1) + " of " + about.total + ", " + about.labeled + " labeled by you." + done;
    if (focus && byId("question")) {
      byId("question").tabIndex = -1;
      byId("question").focus();
    }
  };
  const run = async (request) => {
    if (isBusy) return;
    isBusy = true;
    try { await request(); } catch { progress.textContent = "The connection is lost. Is ragstone view running?"; }
    isBusy = false;
  };
  const load = (n) => run(async () => {
    await show(await fetch("label/item?" + new URLSearchParams({ author: author.value, n: String(n) })), true);
  });
  const save = (id, value, focus) => run(async () => {
    const marks = [...document.querySelectorAll(".mark:checked")].map((box) => box.value);
    const relevant = marks.length ? marks.filter((mark) => mark !== "none").map(Number) : null;
    const correction = byId("correction")?.value || null;
    const body = JSON.stringify({ trace_id: id, value, author: author.value, correction, relevant });
    const response = await fetch("label", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    if (response.ok) last = value === null ? null : id;
    await show(response, focus);
  });
  const actions = {
    1: () => save(trace, 1, false), 2: () => save(trace, 0.5, false), 3: () => save(trace, 0, false),
    j: () => load(position + 1), k: () => load(Math.max(position - 1, 0)),
    u: () => { if (last !== null) save(last, null, true); },
  };
  addEventListener("keydown", (event) => {
    const action = actions[event.key.toLowerCase()];
    if (!action || byId("choices").hidden || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("#author, #n, textarea")) return;
    event.preventDefault();
    action();
  });
  document.querySelectorAll(".choice").forEach((button) =>
    button.addEventListener("click", () => save(trace, Number(button.dataset.value), false)));
  byId("next").addEventListener("click", actions.j);
  byId("previous").addEventListener("click", actions.k);
  byId("undo").addEventListener("click", actions.u);
  byId("draw").addEventListener("click", () => run(async () => {
    const response = await fetch("label/draw?" + new URLSearchParams({ n: byId("n").value }), { method: "POST" });
    const text = await response.text();
    if (response.ok) await show(await fetch("label/item?" + new URLSearchParams({ author: author.value, n: "" })), true);
    progress.textContent = text + " " + (response.ok ? progress.textContent : "");
  }));
  author.addEventListener("change", () => {
    localStorage.setItem("ragstone author", author.value);
    last = null;
    load(-1);
  });
  load(-1);
})();
