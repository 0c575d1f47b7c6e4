"use strict";
// The live page: fetches the parts that changed, the rows of the table of all questions, and single answers.
// The query of its address holds the filters, the order and the page of the table, so that a link shows the same rows.
(() => {
  const byId = (id) => document.getElementById(id);
  const state = byId("state");
  const ROWS = 50;
  const FIELDS = ["search", "cause", "where", "since", "until", "sort"];
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
  const asked = () => new URLSearchParams(location.search);
  const ask = (changes) => {
    const query = asked();
    Object.entries(changes).forEach(([name, value]) => value ? query.set(name, value) : query.delete(name));
    if (!("page" in changes) || changes.page === "1") query.delete("page");
    const text = query.toString();
    history.replaceState(null, "", location.pathname + (text ? "?" + text : "") + location.hash);
    return draw();
  };
  const page = () => Math.max(Math.floor(Number(asked().get("page"))) || 1, 1);
  let drawn = 0, pages = 1;
  const draw = async () => {
    const section = byId("all");
    if (!section) return;
    const query = asked();
    FIELDS.forEach((name) => {
      const field = byId(name), value = query.get(name) || (name === "sort" ? "score" : "");
      if (field !== document.activeElement) field.value = value;
    });
    query.delete("token");
    byId("csv").href = "questions.csv?" + query;
    query.set("offset", String((page() - 1) * ROWS));
    query.set("n", String(ROWS));
    const mine = ++drawn;
    const response = await fetch("questions?" + query);
    const html = await response.text();
    if (mine !== drawn) return;
    section.hidden = false;
    byId("found").classList.toggle("bad", !response.ok);
    if (!response.ok) {
      byId("found").textContent = html;
      byId("rows").replaceChildren();
      byId("selection").replaceChildren();
      return;
    }
    const found = Number(response.headers.get("X-Found"));
    const total = Number(response.headers.get("X-Total"));
    const parsed = new DOMParser().parseFromString(html, "text/html");
    byId("rows").replaceChildren(...parsed.querySelectorAll(".found > tbody > tr"));
    byId("selection").replaceChildren(...parsed.querySelectorAll(".selection"));
    byId("found").textContent = found.toLocaleString("en") + " of " + total.toLocaleString("en") + " questions";
    pages = Math.max(Math.ceil(found / ROWS), 1);
    if (page() > pages) { await ask({ page: String(pages) }); return; }
    byId("page").textContent = "Page " + page().toLocaleString("en") + " of " + pages.toLocaleString("en");
    byId("previous").disabled = page() <= 1;
    byId("next").disabled = page() >= pages;
    const sort = asked().get("sort") || "score";
    document.querySelectorAll("#all .sort").forEach((button) => {
      const isSorted = sort.replace(/^-/, "") === button.dataset.sort.replace(/^-/, "");
      if (isSorted) button.closest("th").setAttribute("aria-sort", sort.startsWith("-") ? "descending" : "ascending");
      else button.closest("th").removeAttribute("aria-sort");
    });
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
    dialog.scrollTop = 0;
  };
  // The answer before or after the open one, also of the page before or after.
  const step = async (by) => {
    const links = () => [...document.querySelectorAll("#rows tr a")];
    const next = links().findIndex((link) => link.hash === opened) + by;
    if (next >= 0 && next < links().length) { location.hash = links()[next].hash; return; }
    if (page() + by < 1 || page() + by > pages) return;
    await ask({ page: String(page() + by) });
    const shown = links();
    if (shown.length) location.hash = shown[by > 0 ? 0 : shown.length - 1].hash;
  };
  // The address may name the next answer already.
  const leave = () => {
    if (location.hash === opened) history.pushState(null, "", location.pathname + location.search + "#all");
  };
  const changeAlarm = async (button) => {
    if (!confirm(button.textContent + "?")) return;
    const response = await fetch("alarm?" + button.dataset.query, { method: "POST" });
    button.parentElement.textContent = await response.text();
  };
  const copy = async (button) => {
    const query = asked();
    query.delete("token");
    const place = location.origin + location.pathname + (query.size ? "?" + query : "");
    const text = button.dataset.text ?? place + button.dataset.link;
    const name = button.textContent;
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { prompt("Copy this:", text); }
    setTimeout(() => { button.textContent = name; }, 1500);
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
        place(name).replaceChildren(...parsed.getElementById("part-" + name).childNodes);
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

  // Conditions and times are asked for when they are complete: Enter, or another field.
  const isWritten = ({ id }) => ["where", "since", "until"].includes(id);
  let typing;
  document.addEventListener("change", ({ target }) => { if (isWritten(target)) ask({ [target.id]: target.value }); });
  document.addEventListener("input", ({ target }) => {
    if (target.id === "add") {
      const where = byId("where"), isOpen = target.value.endsWith("~");
      where.value = [where.value.trim(), target.value].filter(Boolean).join(" and ");
      target.value = "";
      if (isOpen) where.focus(); else ask({ where: where.value });
    } else if (FIELDS.includes(target.id) && !isWritten(target)) {
      clearTimeout(typing);
      typing = setTimeout(() => ask({ [target.id]: target.value }), target.matches("select") ? 0 : 250);
    }
  });
  const flipped = (sort) => sort.startsWith("-") ? sort.slice(1) : "-" + sort;
  const actions = {
    previous: () => ask({ page: String(page() - 1) }), next: () => ask({ page: String(page() + 1) }),
    "previous-answer": () => step(-1), "next-answer": () => step(1), close: () => byId("details").close(),
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.matches(".sort")) {
      const { sort } = button.dataset;
      ask({ sort: (asked().get("sort") || "score") === sort ? flipped(sort) : sort });
    } else if (button?.matches(".copy")) copy(button);
    else if (button?.matches(".alarm")) changeAlarm(button);
    else actions[button?.id]?.();
    const line = event.target.closest("#rows tr");
    if (line && !event.target.closest("a") && getSelection().isCollapsed) location.hash = line.querySelector("a").hash;
  });
  document.addEventListener("close", (event) => { if (event.target.id === "details") leave(); }, true);
  addEventListener("hashchange", open);
  addEventListener("popstate", draw);
  addEventListener("keydown", (event) => {
    const isOpen = Boolean(byId("details")?.open);
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
    if (event.key === "/" && byId("search") && !isOpen) {
      event.preventDefault();
      byId("search").focus();
    }
    if (isOpen && /^[jk]$/i.test(event.key)) step(event.key.toLowerCase() === "j" ? 1 : -1);
  });
  draw().catch(() => waiting.add("rows")).then(open);
  connect();
})();
