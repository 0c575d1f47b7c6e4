"use strict";
// The live page: fetches the parts that changed, the rows of the table of all questions, and single answers.
(() => {
  const byId = (id) => document.getElementById(id);
  const state = byId("state");
  let shown = 50;
  let revision = document.body.dataset.revision;
  const waiting = new Set();

  // Scripts of a parsed document never run, and the policy of the page forbids all but this one.
  const put = (element, html) => {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    element.replaceChildren(...parsed.body.childNodes);
  };
  const get = async (path) => {
    const response = await fetch(path);
    if (!response.ok) throw new Error(await response.text());
    return response;
  };
  const showState = (text, className) => {
    state.textContent = text;
    state.className = className;
  };
  const time = () => new Date().toLocaleTimeString();

  // The table of all questions.
  let asked = 0;
  const draw = async () => {
    const section = byId("all");
    if (!section) return;
    const query = new URLSearchParams({
      search: byId("search").value, cause: byId("cause").value, order: byId("order").value, n: String(shown),
      label: byId("label") ? byId("label").value : "",
    });
    const mine = ++asked;
    const response = await get("questions?" + query);
    const html = await response.text();
    if (mine !== asked) return;
    const found = Number(response.headers.get("X-Found"));
    const total = Number(response.headers.get("X-Total"));
    // A table in a document of its own: rows outside of a table would lose their cells.
    const parsed = new DOMParser().parseFromString("<table><tbody>" + html + "</tbody></table>", "text/html");
    byId("rows").replaceChildren(...parsed.querySelectorAll("tr"));
    byId("found").textContent = found.toLocaleString("en") + " of " + total.toLocaleString("en") + " questions";
    byId("more").hidden = found <= shown || shown >= 1000;
    section.hidden = false;
  };

  // One answer, in a dialog. Its address is #q=ID.
  let opened = "";
  const open = async () => {
    const dialog = byId("details");
    const match = location.hash.match(/^#q=(.+)$/);
    if (!dialog || !match) { if (dialog && dialog.open) dialog.close(); return; }
    let id;
    try { id = decodeURIComponent(match[1]); } catch { return; }
    const response = await fetch("answer?" + new URLSearchParams({ id }));
    put(byId("content"), response.status === 404 ? "<p>The store does not contain this request.</p>" : await response.text());
    opened = match[0];
    if (!dialog.open) dialog.showModal();
  };
  // The address may name the next answer already.
  const leave = () => {
    if (location.hash === opened) history.pushState(null, "", location.pathname + "#all");
  };

  // A part that a person works in is replaced later.
  const isBusy = (element) => {
    const selection = getSelection();
    return element.contains(document.activeElement) || Boolean(element.querySelector("dialog[open]")) ||
      (selection && !selection.isCollapsed && element.contains(selection.anchorNode));
  };
  const place = (name) => byId("part-" + name);
  const showLinks = () => document.querySelectorAll("nav a").forEach((link) => {
    link.hidden = Boolean(link.hash) && !byId(link.hash.slice(1));
  });
  showLinks();
  const refresh = async (names) => {
    const now = names.filter((name) => {
      const element = name === "rows" ? byId("rows") : place(name);
      if (element && isBusy(element)) { waiting.add(name); return false; }
      return element || name === "rows";
    });
    const parts = now.filter((name) => name !== "rows");
    if (parts.length) {
      const response = await get("parts?" + new URLSearchParams(parts.map((name) => ["name", name])));
      const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
      parts.forEach((name) => {
        const values = [...place(name).querySelectorAll("input, select")].map((control) => [control.id, control.value]);
        place(name).replaceChildren(...parsed.getElementById("part-" + name).childNodes);
        values.forEach(([id, value]) => { if (byId(id)) byId(id).value = value; });
      });
      showLinks();
    }
    if (now.includes("rows") || now.includes("all")) await draw();
  };
  const refreshAll = async (names) => {
    try {
      await refresh(names);
      showState("live, updated " + time(), "live");
    } catch {
      names.forEach((name) => waiting.add(name));
      showState("not up to date, trying again", "lost");
    }
  };
  const retry = () => {
    const names = [...waiting];
    waiting.clear();
    if (names.length) refreshAll(names);
  };
  setInterval(retry, 2000);

  let events;
  const connect = () => {
    events = new EventSource("events?since=" + encodeURIComponent(revision));
    events.addEventListener("open", () => showState("live, updated " + time(), "live"));
    events.addEventListener("message", (event) => {
      revision = event.lastEventId;
      refreshAll(JSON.parse(event.data));
    });
    events.addEventListener("error", () => {
      showState("connection lost, trying again", "lost");
      // A browser does not connect again by itself after some errors.
      if (events.readyState === EventSource.CLOSED) setTimeout(connect, 4000);
    });
  };

  document.addEventListener("input", (event) => {
    if (["search", "cause", "label", "order"].includes(event.target.id)) { shown = 50; draw(); }
  });
  document.addEventListener("click", (event) => {
    if (event.target.id === "more") { shown += 200; draw(); }
    if (event.target.id === "close") byId("details").close();
    const line = event.target.closest("#rows tr");
    if (line && !event.target.closest("a") && getSelection().isCollapsed) location.hash = line.querySelector("a").hash;
  });
  document.addEventListener("close", (event) => { if (event.target.id === "details") leave(); }, true);
  addEventListener("hashchange", open);
  addEventListener("keydown", (event) => {
    const dialog = byId("details");
    if (event.key === "/" && byId("search") && !(dialog && dialog.open) && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      byId("search").focus();
    }
  });
  draw().catch(() => waiting.add("rows")).then(open);
  connect();
})();
