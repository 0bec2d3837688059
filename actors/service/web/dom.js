// Elements, texts and tables. Values become text nodes, never HTML.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const note = (text) => element("p", { class: "note" }, text);
export const title = (text) => element("h3", {}, text);

export function button(text, onclick, attributes = {}) {
  return element("button", { type: "button", onclick, ...attributes }, text);
}

// --- values as texts

export const number = (value, digits = 4) =>
  value === null || value === undefined ? "–"
    : value.toLocaleString("en", { maximumSignificantDigits: digits });

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds > 0 && seconds < 1) return `${number(1000 * seconds, 3)} ms`;
  if (seconds < 60) return `${number(seconds, 3)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return twoUnits(whole, 60, "min", "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return twoUnits(minutes, 60, "h", "min");
  return twoUnits(Math.round(minutes / 60), 24, "d", "h");
}

function twoUnits(count, size, large, small) {
  const rest = count % size;
  return `${Math.floor(count / size)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

// Only the largest unit: for columns.
export function shortDuration(seconds) {
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit}`;
  return `${Math.max(0, Math.floor(seconds))} s`;
}

// What devices cost, in the unit of the prices of the head.
export const amount = (value) => value.toFixed(2);
export const percent = (share) =>
  share === null || share === undefined ? "–" : `${number(100 * share, 3)} %`;
export const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
export const clock = (ms) => new Date(ms).toLocaleString("en-GB");

export const stateText = (state) => element("span", { class: `state state-${state}` }, state);

export const jobLink = (job) =>
  element("a", { href: `#/jobs/${encodeURIComponent(job)}`, "data-key": `job ${job}` }, job);
export const nodeAddress = (...parts) => `#/nodes/${parts.map(encodeURIComponent).join("/")}`;
export const nodeLink = (node, device) => element("a", {
  href: nodeAddress(...[node, device].filter(Boolean)), "data-key": `node ${node} ${device ?? ""}`,
}, device ?? node);

// --- elements that are drawn again and again

// Replaces the content of `place`. The element that had the focus is another one now; the one with
// the same data-key gets it.
export function redraw(place, ...parts) {
  const active = document.activeElement;
  const key = place.contains(active) ? active.getAttribute("data-key") : null;
  place.replaceChildren(...parts.flat().filter((part) => part));
  if (key === null) return;
  [...place.querySelectorAll("[data-key]")]
    .find((node) => node.getAttribute("data-key") === key)?.focus({ preventScroll: true });
}

export const cards = (entries) => element("ul", { class: "cards" },
  ...entries.filter((entry) => entry).map(([name, value]) =>
    element("li", { class: "card" }, element("span", { class: "name" }, name), " ",
      element("span", { class: "value" }, value ?? "–"))));

export function progressBar(done, total, label) {
  const share = total > 0 ? done / total : 0;
  return element("span", { class: "progress" },
    element("progress", { max: 1, value: share, "aria-label": label ?? "Progress" }),
    element("span", { class: "of" }, `${done} / ${total}`));
}

// Columns are [name, class of its cells]; a row has a text or an element for each.
export function table(caption, columns, rows) {
  const cell = (tag, content, kind) => element(tag, {
    class: kind || undefined, scope: tag === "th" ? "col" : undefined,
  }, content ?? "–");
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {},
      element("thead", {}, element("tr", {},
        ...columns.map(([name, kind]) => cell("th", name, kind)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {},
        ...row.map((content, i) => cell("td", content, columns[i][1])))))));
}

function compareKeys(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
}

// A table whose rows a press on a column sorts. Columns are {name, kind, key(row), cell(row)}; one
// without key is not sorted. `order` ({name, down}) outlives the table; `show` draws it again.
export function sortedTable(caption, columns, rows, order, show) {
  const by = columns.find((column) => column.name === order.name && column.key);
  const sign = order.down ? -1 : 1;
  const sorted = by ? rows.toSorted((a, b) => sign * compareKeys(by.key(a), by.key(b))) : rows;
  const head = columns.map((column) => [sortButton(column, order, show), column.kind]);
  const made = table(caption, head, sorted.map((row) => columns.map((c) => c.cell(row))));
  made.querySelectorAll("th").forEach((th, i) => {
    if (columns[i] === by) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
  });
  return made;
}

function sortButton({ name, key, head }, order, show) {
  if (!key) return head ?? name;
  const sorts = order.name === name;
  const mark = sorts ? (order.down ? "▼" : "▲") : "↕";
  return button(name, () => {
    order.down = sorts && !order.down;
    order.name = name;
    show();
  }, { class: sorts ? "sort sorts" : "sort", "data-mark": mark, "data-key": `sort ${name}` });
}

// --- dialogs

// Asks before something is done. Resolves to true if the user confirms; Escape says no, and the
// question leaves with its view.
export function confirmed({ heading, text, action, danger }) {
  return new Promise((resolve) => {
    const dialog = element("dialog", { "aria-labelledby": "asked", onclose: () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    } },
    element("form", { method: "dialog" },
      element("h2", { id: "asked" }, heading),
      ...[text].flat().map((line) => element("p", {}, line)),
      element("div", { class: "row end" },
        element("button", { value: "no", autofocus: true }, "Back"),
        element("button", { value: "yes", class: danger ? "danger filled" : "filled" }, action))));
    document.getElementById("main").append(dialog);
    dialog.showModal();
  });
}

// Links to the parts of a page: [[name, hash], ...].
export const tabs = (label, entries, current) =>
  element("nav", { class: "tabs", "aria-label": label }, ...entries.map(([name, hash]) =>
    element("a", { href: hash, "aria-current": name === current ? "page" : undefined }, name)));
