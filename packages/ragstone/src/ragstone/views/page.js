"use strict";
// The table of all questions and the dialog of one answer. Texts are set with textContent only.
(async () => {
  const packed = document.getElementById("data");
  if (!packed || !("DecompressionStream" in window)) return;
  const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  const answers = new Map();
  const passages = [];
  for (const [id, view, added] of data.answers) {
    answers.set(id, view);
    passages.push(...added);
  }
  const byId = (id) => document.getElementById(id);
  const [search, cause, sort, label] = ["search", "cause", "sort", "label"].map(byId);
  const [section, body, found, more, dialog, content] = ["all", "rows", "found", "more", "details", "content"].map(byId);
  let shown = 50;

  const make = (name, text, className) => {
    const element = document.createElement(name);
    if (text !== undefined && text !== null) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const fixed = (value) => (value === null || value === undefined ? "" : value.toFixed(2));

  const lists = new Map();
  data.changed.forEach(([name, ids], n) => {
    const option = make("option", name);
    option.value = "changed " + n;
    lists.set(option.value, new Set(ids));
    cause.append(option);
  });

  const rows = data.questions.map(([id, query, why, rating, values, labels, low]) => ({
    id, query, cause: why, rating, values, labels, low, text: (id + " " + query).toLowerCase(),
  }));
  const columns = document.querySelectorAll("#all thead th").length - 2;
  const selected = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const list = lists.get(cause.value);
    const isChosen = (row) => cause.value === "" ||
      (list ? list.has(row.id) : cause.value === "wrong" ? data.wrong.includes(row.cause) : row.cause === cause.value);
    const chosen = label && label.value !== "" ? data.labels.indexOf(label.value) : null;
    const kept = rows.filter((row) =>
      isChosen(row) && (chosen === null || row.labels.includes(chosen)) &&
      words.every((word) => row.text.includes(word)));
    const high = sort.value.startsWith("-");
    return kept
      .map((row) => [valueOf(row), row])
      .sort(([a], [b]) => (a === null ? 1 : b === null ? -1 : high ? b - a : a - b))
      .map(([, row]) => row);
  };
  const plain = (name) => name.replace(/^-/, "");
  const valueOf = (row) => plain(sort.value) === "score" ? row.rating :
    row.values[data.metrics.indexOf(plain(sort.value))];
  const titles = new Map(data.causes);
  const draw = () => {
    const kept = selected();
    found.textContent = kept.length.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " questions";
    body.replaceChildren(...kept.slice(0, shown).map((row) => {
      const line = make("tr");
      line.append(make("td", fixed(valueOf(row)), "number"));
      const cell = make("td");
      const link = make("a", row.query || row.id);
      link.href = "#q=" + encodeURIComponent(row.id);
      const about = make("small");
      if (titles.has(row.cause)) about.append(make("span", titles.get(row.cause) + " ", "cause"));
      about.append(make("span", row.id, "id"));
      cell.append(link, about);
      line.append(cell, ...row.values.slice(0, columns).map((score, n) => {
        return make("td", fixed(score), row.low.includes(n) ? "value number bad" : "value number");
      }));
      return line;
    }));
    more.hidden = kept.length <= shown;
    document.querySelectorAll("#all .sort").forEach((button) => {
      const isSorted = plain(sort.value) === plain(button.dataset.sort);
      if (isSorted) button.closest("th").setAttribute("aria-sort", sort.value.startsWith("-") ? "descending" : "ascending");
      else button.closest("th").removeAttribute("aria-sort");
    });
  };

  const list = (title, element) => [make("h4", title), element];
  const answer = (view) => {
    const [query, why, kind, response, claims, reference, scores, retrieved, metadata] = view;
    const box = make("div", null, "answer");
    const heading = make("h3", query);
    heading.id = "heading";
    box.append(heading, make("p", why, kind));
    const columns = make("div", null, "columns");
    const left = make("div");
    const text = make("p", null, "text");
    if (response === null) text.append("(the answer is not known)");
    else response.forEach(([part, bad]) => {
      if (!bad) { text.append(part); return; }
      text.append(make("mark", part), " ", make("span", "unsupported", "chip unsupported"), " ");
    });
    left.append(...list("The answer", text));
    claims.forEach((claim) => left.append(...list("Unsupported claim", make("p", claim, "text"))));
    reference.forEach((one) => left.append(...list("The reference", make("p", one, "text"))));
    const table = make("table", null, "scores");
    scores.filter((score) => score[4]).forEach(([metric, value, reason, low]) => {
      const line = make("tr");
      line.append(make("td", metric), make("td", value, low ? "number bad" : "number"), make("td", reason, "reason soft"));
      table.append(line);
    });
    const others = scores.filter((score) => !score[4]).map(([metric, value]) => metric + " " + value).join(", ");
    if (scores.length) left.append(make("h4", "The scores, and why"));
    if (table.rows.length) left.append(table);
    if (others) left.append(make("p", (table.rows.length ? "Other scores: " : "") + others, "soft others"));
    const right = make("div");
    const ordered = make("ol", null, "passages");
    (retrieved || []).forEach(([position, marks, text, id, p], n) => {
      const item = make("li");
      item.append(make("span", position + ". ", "soft"));
      marks.forEach((mark) => item.append(make("span", mark, "chip " + mark)));
      item.append(make("span", passages[text], "text"), make("small", [id, p].filter(Boolean).join(", ")));
      ordered.append(item);
    });
    const name = retrieved === null ? "The passages are not known" : retrieved.length === 0 ? "No passages were retrieved" : "The passages, in the order of the prompt";
    right.append(...list(name, ordered));
    if (metadata.length) {
      const facts = make("dl");
      metadata.forEach(([key, value]) => facts.append(make("dt", key), make("dd", value)));
      right.append(...list("Metadata", facts));
    }
    columns.append(left, right);
    box.append(columns);
    return box;
  };
  // The address of the open answer: when the dialog closes, the address may name the next one already.
  let opened = "";
  const open = () => {
    const match = location.hash.match(/^#q=(.+)$/);
    if (!match) { if (dialog.open) dialog.close(); return; }
    let id;
    try { id = decodeURIComponent(match[1]); } catch { return; }
    const view = answers.get(id);
    const row = rows.find((each) => each.id === id);
    if (!row) return;
    if (view) content.replaceChildren(answer(view), make("p", id, "id"));
    else {
      const heading = make("h3", row.query || row.id);
      heading.id = "heading";
      content.replaceChildren(heading, make("p", "The full answer is not in this file, which has a size limit.", "soft"), make("p", id, "id"));
    }
    opened = match[0];
    if (!dialog.open) dialog.showModal();
  };
  dialog.addEventListener("close", () => {
    if (location.hash === opened) history.pushState(null, "", location.pathname + location.search + "#all");
  });
  byId("close").addEventListener("click", () => dialog.close());
  document.querySelectorAll("#all .sort").forEach((button) => button.addEventListener("click", () => {
    const first = button.dataset.sort;
    sort.value = sort.value !== first ? first : first.startsWith("-") ? plain(first) : "-" + first;
    shown = 50;
    draw();
  }));
  [search, cause, label, sort].filter(Boolean).forEach((control) => control.addEventListener("input", () => { shown = 50; draw(); }));
  more.addEventListener("click", () => { shown += 200; draw(); });
  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (line && !event.target.closest("a") && getSelection().isCollapsed) location.hash = line.querySelector("a").hash;
  });
  addEventListener("hashchange", open);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !dialog.open && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      search.focus();
    }
  });
  draw();
  section.hidden = false;
  open();
})();
