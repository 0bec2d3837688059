// The web page of a head. It shows what the API says (openapi.json) and needs nothing else.

const REFRESH_MS = 2000;
const LOG_LINES = 500;
const OVER = new Set(["finished", "failed", "cancelled", "timed-out"]);

let token = sessionStorage.getItem("token") ?? "";
let identity = null;
// Ends the requests of the page that is being left.
let leaving = new AbortController();

// --- the API

class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(method, path, body, signal = leaving.signal) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method !== "GET") headers["Content-Type"] = "application/json";
  const answer = await fetch(path, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.ok) return answer;
  let message = `status ${answer.status}`;
  try {
    message = (await answer.json()).error;
  } catch { /* not JSON: the status has to suffice */ }
  throw new ApiError(answer.status, message);
}

const get = async (path) => (await request("GET", path)).json();

const jobPath = (job, rest = "") => `/api/v1/jobs/${encodeURIComponent(job)}${rest}`;

// Calls onEvent(name, data) for every event of a stream until it ends.
async function readEvents(path, onEvent) {
  const reader = (await request("GET", path)).body
    .pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const name = /^event: (.*)$/m.exec(block)?.[1];
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (name && data) onEvent(name, JSON.parse(data));
    }
  }
}

// --- elements

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const number = (value, digits = 4) =>
  value === null || value === undefined ? "–"
    : value.toLocaleString("en", { maximumSignificantDigits: digits });

const duration = (seconds) =>
  seconds > 0 && seconds < 1 ? `${number(1000 * seconds, 3)} ms`
    : seconds < 60 ? `${number(seconds, 3)} s`
    : seconds < 3600 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
      : `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;

const stateText = (state) => element("span", { class: `state state-${state}` }, state);

function table(caption, columns, rows) {
  const cell = (tag, text, kind) => element(tag, {
    class: kind || undefined, scope: tag === "th" ? "col" : undefined,
  }, text ?? "–");
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {},
      element("thead", {}, element("tr", {}, ...columns.map(([name, kind]) => cell("th", name, kind)))),
      element("tbody", {}, ...rows.map((row) =>
        element("tr", {}, ...row.map((text, i) => cell("td", text, columns[i][1])))))));
}

// A table whose rows are sorted by a click on a column. `order` ({column, down}) outlives the table;
// `show` draws it again. A row is [[text or element, key], ...].
function sortedTable(caption, columns, rows, order, show) {
  const { column, down } = order;
  const sorted = column === null ? rows : rows.toSorted((a, b) => {
    const x = a[column][1] ?? "", y = b[column][1] ?? "";
    const both = typeof x === "number" && typeof y === "number";
    return (down ? -1 : 1) * (both ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
  });
  const made = table(caption, columns.map(([name, kind], i) => [element("button", {
    type: "button", class: "sort", onclick: () => {
      order.down = order.column === i && !order.down;
      order.column = i;
      show();
    },
  }, name, element("span", { "aria-hidden": "true" }, column === i ? (down ? " ▾" : " ▴") : "")), kind]),
  sorted.map((row) => row.map(([text]) => text)));
  made.querySelectorAll("th").forEach((th, i) => {
    if (i === column) th.setAttribute("aria-sort", down ? "descending" : "ascending");
  });
  return made;
}

const cards = (entries) => element("ul", { class: "cards" }, ...entries.map(([name, value]) =>
  element("li", { class: "card" }, element("span", { class: "name" }, name), " ",
    element("span", { class: "value" }, value ?? "–"))));

// --- pictures

// Two curves in one picture: the means of both jobs over the steps.
function twoCurvesPicture(names, curves) {
  const width = 720, height = 240, left = 56, bottom = 24, top = 10;
  const known = curves.map((points) => points.filter((p) => p[2] !== null));
  const all = known.flat();
  if (all.length < 2) return element("p", { class: "note" }, "There are no losses yet.");
  const first = Math.min(...all.map((p) => p[0])), last = Math.max(...all.map((p) => p[0]));
  const low = Math.min(...all.map((p) => p[2])), high = Math.max(...all.map((p) => p[2]));
  const x = (step) => left + (width - left - 8) * (step - first) / Math.max(1, last - first);
  const y = (loss) => top + (height - top - bottom) * (high - loss) / Math.max(1e-30, high - low);
  const title = `Loss of ${names.join(" and ")}, steps ${first} to ${last}`;
  return element("figure", {},
    shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
      shape("line", { class: "axis", x1: left, x2: left, y1: top, y2: height - bottom }),
      shape("line", { class: "axis", x1: left, x2: width - 8, y1: height - bottom, y2: height - bottom }),
      ...known.map((points, i) => shape("polyline", {
        class: i === 0 ? "curve" : "curve other", points: points.map((p) => `${x(p[0])},${y(p[2])}`).join(" "),
      })),
      shape("text", { x: left - 4, y: top + 10, "text-anchor": "end" }, number(high)),
      shape("text", { x: left - 4, y: height - bottom, "text-anchor": "end" }, number(low)),
      shape("text", { x: left, y: height - 6 }, `step ${first}`),
      shape("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, `step ${last}`)),
    element("figcaption", {}, `${title}. The line of ${names[0]} is solid, that of ${names[1]} dashed.`));
}

function curvePicture(points) {
  const width = 720, height = 240, left = 56, bottom = 24, top = 10;
  const known = points.filter((p) => p[2] !== null);
  if (known.length < 2) return element("p", { class: "note" }, "There are no losses yet.");
  const first = known[0][0], last = known[known.length - 1][0];
  const low = Math.min(...known.map((p) => p[1])), high = Math.max(...known.map((p) => p[3]));
  const x = (step) => left + (width - left - 8) * (step - first) / Math.max(1, last - first);
  const y = (loss) => top + (height - top - bottom) * (high - loss) / Math.max(1e-30, high - low);
  const line = known.map((p) => `${x(p[0])},${y(p[2])}`).join(" ");
  const band = [...known.map((p) => `${x(p[0])},${y(p[3])}`),
    ...known.toReversed().map((p) => `${x(p[0])},${y(p[1])}`)].join(" ");
  const labels = [];
  for (const [value, at] of [[high, top + 10], [low, height - bottom]])
    labels.push(shape("text", { x: left - 4, y: at, "text-anchor": "end" }, number(value)));
  labels.push(shape("text", { x: left, y: height - 6 }, `step ${first}`),
    shape("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, `step ${last}`));
  const title = `Loss from ${number(known[0][2])} at step ${first} to ` +
    `${number(known[known.length - 1][2])} at step ${last}`;
  return element("figure", {},
    shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
      shape("line", { class: "axis", x1: left, x2: left, y1: top, y2: height - bottom }),
      shape("line", { class: "axis", x1: left, x2: width - 8, y1: height - bottom, y2: height - bottom }),
      shape("polygon", { class: "band", points: band }),
      shape("polyline", { class: "curve", points: line }), ...labels),
    element("figcaption", {}, `${title}. The band shows the smallest and the largest loss of a point.`));
}

// Lines over one axis: `lines` are [{name, points: [[x, y], ...]}, ...]. `x` and `y` write values.
function linesPicture(title, lines, x, y, note = "") {
  const width = 720, height = 200, left = 64, bottom = 24, top = 10, right = 12;
  const all = lines.flatMap((line) => line.points);
  const first = Math.min(...all.map((p) => p[0])), last = Math.max(...all.map((p) => p[0]));
  if (!(first < last)) return null;
  const high = Math.max(...all.map((p) => p[1])), low = Math.min(0, ...all.map((p) => p[1]));
  const atX = (value) => left + (width - left - right) * (value - first) / Math.max(1e-30, last - first);
  const atY = (value) => top + (height - top - bottom) * (high - value) / Math.max(1e-30, high - low);
  const kinds = ["curve", "curve other", "curve third"];
  return element("figure", {},
    shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
      shape("line", { class: "axis", x1: left, x2: left, y1: top, y2: height - bottom }),
      shape("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
      ...lines.map((line, i) => shape("polyline", {
        class: kinds[i % kinds.length], points: line.points.map((p) => `${atX(p[0])},${atY(p[1])}`).join(" "),
      })),
      shape("text", { x: left - 4, y: top + 10, "text-anchor": "end" }, y(high)),
      shape("text", { x: left - 4, y: height - bottom, "text-anchor": "end" }, y(low)),
      shape("text", { x: left, y: height - 6 }, x(first)),
      shape("text", { x: width - right, y: height - 6, "text-anchor": "end" }, x(last))),
    element("figcaption", {}, [title + ".", note].filter((text) => text).join(" ")));
}

// The speed between two points of the progress, as a step line.
function speedPicture(progress, samplesPerStep) {
  const points = [];
  for (let i = 1; i < progress.length; ++i) {
    const [from, before] = progress[i - 1], [to, after] = progress[i];
    if (to <= from) continue;
    const speed = (after - before) * samplesPerStep / (to - from);
    points.push([from, speed], [to, speed]);
  }
  return linesPicture("Samples per second over the time since the head has the job",
    [{ points }], duration, (value) => number(value, 3));
}

const CAUSES = {
  change: "changes of devices", link: "broken links", worker_lost: "lost workers", audit: "audits",
  suspended: "without devices",
};

// Which device trained when: a row for each device, and the pauses between as red bars over all rows.
function ganttPicture(spans) {
  const width = 720, row = 22, top = 6, left = 150, right = 8;
  if (spans.length === 0) return null;
  const devices = [...new Set(spans.flatMap((span) => span.devices))].toSorted();
  const begin = spans[0].begin_seconds;
  const end = Math.max(spans.at(-1).begin_seconds + spans.at(-1).seconds, begin + 1e-3);
  const x = (seconds) => left + (width - left - right) * (seconds - begin) / (end - begin);
  const height = top + devices.length * row + 20;
  const parts = [];
  devices.forEach((device, i) => parts.push(shape("text", {
    x: left - 6, y: top + i * row + 15, "text-anchor": "end",
  }, device.length > 22 ? `…${device.slice(-21)}` : device)));
  const bar = (kind, from, to, y, size, title) => parts.push(shape("rect", {
    class: kind, x: x(from), width: Math.max(1, x(to) - x(from)), y, height: size,
  }, shape("title", {}, title)));
  for (const span of spans) {
    const to = span.begin_seconds + span.seconds;
    for (const device of span.devices)
      bar("stage", span.begin_seconds, to, top + devices.indexOf(device) * row + 2, row - 4,
        `${device}: ${span.steps} steps from step ${span.first_step + 1} on, ${duration(span.seconds)}`);
    if (span.cause)
      bar("pause", span.begin_seconds - span.pause_seconds, span.begin_seconds, top, devices.length * row,
        `Pause of ${duration(span.pause_seconds)}: ${CAUSES[span.cause]}`);
  }
  parts.push(shape("text", { x: left, y: height - 5 }, duration(0)),
    shape("text", { x: width - right, y: height - 5, "text-anchor": "end" }, duration(end - begin)));
  const pauses = spans.filter((span) => span.cause);
  const text = `${spans.length === 1 ? "1 span" : `${spans.length} spans`} of training on ` +
    `${devices.length === 1 ? "1 device" : `${devices.length} devices`}, ` +
    `${pauses.length === 1 ? "1 pause" : `${pauses.length} pauses`}`;
  return element("figure", {},
    shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text, class: "gantt" }, ...parts),
    element("figcaption", {}, `${text}. A bar is a device that trained; red is a pause of the job.`));
}

function spansTable(spans) {
  const newest = spans.slice(-12).toReversed();
  return table("Changes of devices", [["after", "number"], ["why"], ["pause", "number"], ["from step", "number"],
    ["steps", "number"], ["trained", "number"], ["devices", "wide"]],
  newest.map((span) => [duration(span.begin_seconds), span.cause ? CAUSES[span.cause] : "begin",
    span.cause ? duration(span.pause_seconds) : "", String(span.first_step + 1), String(span.steps),
    duration(span.seconds), span.devices.join(", ")]));
}

// Where the time went that this head has seen of the job: progress, and what it lost, by cause.
function sharesOf(job, timeline) {
  const training = timeline.spans.length ? job.stages.reduce((sum, s) => sum + s.seconds, 0) : 0;
  const data = training * job.data_wait_share, switching = training * job.context_switch_share;
  const parts = [["progress", "stage", training - data - switching], ["waiting for data", "data", data],
    ["switching between ESTs", "switching", switching],
    ...timeline.pauses.map((pause) => [CAUSES[pause.cause], "pause", pause.seconds])];
  return { whole: parts.reduce((sum, part) => sum + part[2], 0), parts };
}

function sharesPicture({ whole, parts }) {
  if (whole <= 0) return null;
  const width = 720, left = 8;
  let at = left;
  const boxes = parts.map(([name, kind, seconds]) => {
    const size = (width - 2 * left) * Math.max(0, seconds) / whole;
    const box = shape("rect", { class: kind, x: at, y: 4, width: size, height: 22 }, shape("title", {}, name));
    at += size;
    return box;
  });
  const text = parts.map(([name, , seconds]) => `${name} ${number(100 * seconds / whole, 3)} %`).join(", ");
  return element("figure", {},
    shape("svg", { viewBox: `0 0 ${width} 30`, role: "img", "aria-label": text }, ...boxes),
    element("figcaption", {}, `Of ${duration(whole)}: ${text}.`));
}

// The metrics of the evaluations by step, one picture for each.
function metricPictures(evaluations) {
  const names = [...new Set(evaluations.flatMap((e) => Object.keys(e)))]
    .filter((name) => !["version", "total", "metric", "not_finite"].includes(name));
  return names.map((name) => linesPicture(`${name} by step`, [{
    points: evaluations.filter((e) => typeof e[name] === "number").map((e) => [e.version, e[name]]),
  }], (step) => `step ${step}`, (value) => number(value, 4))).filter((picture) => picture);
}

// --- pages

const main = document.getElementById("main");
const fault = document.getElementById("fault");

function showFault(text) {
  fault.textContent = text ?? "";
  fault.hidden = !text;
}

// Calls `update` now and again, until the page is left or `update` returns true. A head that restarts
// is waited for.
function repeat(update, ms = REFRESH_MS) {
  const { signal } = leaving;
  const turn = async () => {
    if (signal.aborted) return;
    try {
      if (await update()) return;
      showFault("");
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) return showLogin();
      showFault(error.status ? error.message : "The head does not answer. This page tries again.");
      if (error.status === 404) return;
    }
    setTimeout(turn, ms);
  };
  turn();
}

function showLogin() {
  const field = element("input", { type: "password", autocomplete: "current-password", required: true });
  main.replaceChildren(element("h2", {}, "Token"),
    element("form", {
      class: "row",
      onsubmit: async (event) => {
        event.preventDefault();
        token = field.value.trim();
        sessionStorage.setItem("token", token);
        await start();
      },
    }, element("label", {}, "Token of this head", field), element("button", {}, "Enter")),
    element("p", { class: "note" }, "An administrator makes one with ",
      element("code", {}, "esctl token add NAME --role view"), "."));
  field.focus();
}

function jobsPage() {
  const search = element("input", { type: "search" });
  const state = element("select", {}, ...["", "queued", "starting", "running", "rescaling", "paused",
    "finished", "failed", "cancelled", "timed-out"].map((name) => element("option", { value: name }, name || "all")));
  const list = element("div"), count = element("p", { class: "note", role: "status" });
  let limit = 50;
  const order = { column: null, down: false };
  const more = element("button", { hidden: true, onclick: () => { limit += 200; update(); } }, "Show more");
  const update = async () => {
    const query = new URLSearchParams({ limit });
    if (search.value) query.set("search", search.value);
    if (state.value) query.set("state", state.value);
    const { jobs, total, warning } = await get(`/api/v1/jobs?${query}`);
    count.textContent = `${jobs.length} of ${total} jobs, the newest first` + (warning ? `. ${warning}` : "");
    more.hidden = jobs.length >= total;
    const rows = jobs.map((job) => {
      const note = job.error ?? job.warning ?? job.waiting_for ?? "";
      return [
        [element("a", { href: `#/jobs/${encodeURIComponent(job.job)}` }, job.job), job.job],
        [stateText(job.state), job.state], [`${job.steps} / ${job.steps_total}`, job.steps],
        [number(job.loss_last), job.loss_last], [number(job.samples_per_s), job.samples_per_s ?? 0],
        [job.placement, job.placement], [job.level, job.level], [job.tenant, job.tenant], [note, note],
      ];
    });
    const show = () => {
      // The button that was pressed keeps the focus, although it is a new one.
      const at = [...list.querySelectorAll("button.sort")].indexOf(document.activeElement);
      list.replaceChildren(sortedTable("Jobs", [["job"], ["state"], ["steps", "number"], ["loss", "number"],
        ["samples/s", "number"], ["devices"], ["level"], ["tenant"], ["note", "wide"]], rows, order, show));
      if (at >= 0) list.querySelectorAll("button.sort")[at].focus();
    };
    show();
  };
  main.replaceChildren(element("h2", {}, "Jobs"),
    element("form", { class: "row", onsubmit: (event) => event.preventDefault(), oninput: () => update() },
      element("label", {}, "Search", search), element("label", {}, "State", state)),
    count, list, more);
  repeat(update);
}

async function act(job, action, body = {}) {
  try {
    await request("POST", jobPath(job, `/${action}`), body);
    showFault("");
  } catch (error) {
    showFault(error.message);
  }
}

async function remove(job) {
  if (!confirm(`Remove the job ${job}, with its ledger and log?`)) return;
  try {
    await request("DELETE", jobPath(job));
    location.hash = "";
  } catch (error) {
    showFault(error.message);
  }
}

function jobActions(job) {
  const devices = element("input", { placeholder: "cpu-avx2:2, or empty for the scheduler's choice" });
  const button = (name, action, danger) => element("button", {
    type: "button", class: danger ? "danger" : undefined,
    onclick: () => { if (!danger || confirm(`${name} the job ${job}?`)) act(job, action); },
  }, name);
  return element("form", {
    class: "row", onsubmit: (event) => { event.preventDefault(); act(job, "scale", { devices: devices.value }); },
  }, element("label", {}, "Devices", devices), element("button", {}, "Scale"),
  button("Pause", "pause"), button("Resume", "resume"), button("Checkpoint", "checkpoint"),
  button("Cancel", "cancel", true),
  element("button", { type: "button", class: "danger", onclick: () => remove(job) }, "Remove"));
}

// What devices cost, in the unit of the prices of the head.
const amount = (value) => value.toFixed(2);

function showJob(job, place) {
  const stage = job.stages.at(-1);
  const eta = job.samples_per_s && job.steps < job.steps_total && stage?.steps > 0 && stage.seconds > 0
    ? duration((job.steps_total - job.steps) * stage.seconds / stage.steps) : null;
  place.replaceChildren(...[
    cards([["State", stateText(job.state)], ["Steps", `${job.steps} of ${job.steps_total}`],
      ["Time left", eta], ["Loss", number(job.loss_last)], ["Samples/s now", number(job.samples_per_s)],
      ["Samples/s, mean", number(job.samples_per_s_mean)], ["Devices", job.placement],
      ["Level", job.level], ["ESTs", String(job.max_p)],
      ["Spent", job.spent > 0 ? amount(job.spent) : null],
      ["Costs in an hour", job.price_per_hour > 0 ? amount(job.price_per_hour) : null],
      ["Budget", job.budget === null ? null : amount(job.budget)]]),
    job.error ? element("p", { class: "fault" }, job.error) : null,
    job.warning ? element("p", { class: "fault" }, job.warning) : null,
    job.waiting_for ? element("p", { class: "note" }, `Waits for ${job.waiting_for}.`) : null,
    element("h3", {}, "ESTs on devices"),
    table("ESTs on devices", [["node"], ["device"], ["ESTs"], ["step ms", "number"], ["samples/s", "number"],
      ["slowness", "number"]],
    job.workers.map((w) => [w.node, w.device,
      w.rank_end - w.rank_begin === 1 ? String(w.rank_begin) : `${w.rank_begin} to ${w.rank_end - 1}`,
      number(w.local_step_seconds === null ? null : 1000 * w.local_step_seconds),
      number(w.samples_per_second), number(w.slowness, 3)])),
    job.evaluations.length ? element("h3", {}, "Evaluations") : null,
    element("div", { class: "pictures" }, ...metricPictures(job.evaluations)),
    job.evaluations.length ? table("Evaluations", [["step", "number"], ["metrics", "wide"]],
      job.evaluations.slice(-10).map((e) => [String(e.version), Object.entries(e)
        .filter(([name]) => !["version", "total", "metric"].includes(name))
        .map(([name, value]) => `${name} ${number(value)}`).join(", ")])) : null,
    element("h3", {}, "Proof"),
    cards([["Digest of the parameters", job.params_digest], ["Digest of the state", job.state_digest]]),
  ].filter((part) => part));
}

// The size of a mini-batch is in the job file only.
const batchSize = (job) => Number(/^batch_size *= *([0-9]+)/m.exec(job.spec_toml ?? "")?.[1] ?? 1);

function showTimeline(job, timeline, place) {
  const shares = sharesOf(job, timeline);
  const { checkpoints, exchanged_bytes: bytes } = timeline;
  const progress = shares.whole > 0 ? 100 * shares.parts[0][2] / shares.whole : null;
  place.replaceChildren(...[
    shares.whole > 0 ? element("h3", {}, "Where the time went") : null,
    shares.whole > 0 ? cards([["Time with progress (ETTR)", `${number(progress, 3)} %`],
      ["Recoveries", String(timeline.recoveries)], ["Steps repeated", String(timeline.repeated_steps)],
      ["Processes started again", String(timeline.start_retries)],
      ["MiB by messages", number(bytes.message / 2 ** 20, 3)],
      ["MiB by shared memory", number(bytes.shared_memory / 2 ** 20, 3)],
      ["MiB by GPU channels", number(bytes.gpu_channel / 2 ** 20, 3)]]) : null,
    sharesPicture(shares),
    element("h3", {}, "Throughput over time"),
    speedPicture(timeline.progress, job.max_p * batchSize(job)) ??
      element("p", { class: "note" }, "There are no steps yet."),
    element("h3", {}, "Devices over time"),
    ganttPicture(timeline.spans) ?? element("p", { class: "note" }, "The job has not trained under this head."),
    timeline.spans.length ? spansTable(timeline.spans) : null,
    element("h3", {}, "Checkpoints"),
    cards([["Newest", job.checkpoint], ["Written", String(checkpoints.written)],
      ["Failed", String(checkpoints.failed)],
      ["Mean time", checkpoints.written ? duration(checkpoints.seconds / checkpoints.written) : null]]),
  ].filter((part) => part));
}

// What other devices would bring, compared with the present ones.
function showPlans(plans, place) {
  const now = plans.plans.find((plan) => plan.runs);
  place.replaceChildren(element("h3", {}, "What other devices would bring"),
    plans.plans.length === 0 ? element("p", { class: "note" }, "There are no plans.")
      : table("Plans", [["devices"], ["ESTs each"], ["step", "number"], ["speed", "number"], ["speeds"], [""]],
        plans.plans.slice(0, 12).map((plan) => [plan.devices, plan.parts.map((part) => part.ests_per_device).join(", "),
          duration(plan.seconds_per_step),
          now ? `${number(now.seconds_per_step / plan.seconds_per_step, 3)} ×` : null,
          plan.measured ? "measured" : "assumed", plan.runs ? "runs" : ""])));
}

function showLedger(lines, place) {
  place.replaceChildren(element("h3", {}, "Ledger"),
    lines.length === 0 ? element("p", { class: "note" }, "There are no lines yet.")
      : table("Ledger", [["step", "number"], ["mean loss", "number"], ["digest of the parameters"]],
        lines.toReversed().map((line) => [String(line.version),
          number(line.losses.reduce((sum, loss) => sum + loss, 0) / line.losses.length, 6),
          element("code", {}, line.params)])));
}

function jobPage(id) {
  const facts = element("div"), curve = element("div"), log = element("pre", { tabindex: "0", "aria-label": "Log" });
  const history = element("div"), plans = element("div"), ledger = element("div"), why = element("div");
  main.replaceChildren(...[element("h2", {}, id), identity.role === "view" ? null : jobActions(id), facts, why,
    element("h3", {}, "Loss"), curve, compareForm(id), history, plans, ledger,
    element("h3", {}, "Log"), log].filter((part) => part));
  const lines = [];
  const addLines = (more) => {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    lines.push(...more);
    lines.splice(0, Math.max(0, lines.length - LOG_LINES));
    log.textContent = lines.join("\n");
    if (atEnd) log.scrollTop = log.scrollHeight;
  };
  // The stream ends with the job or with the head. After a restart of the head it begins again.
  repeat(async () => {
    showJob(await get(jobPath(id)), facts);
    lines.length = 0;
    addLines((await (await request("GET", jobPath(id, "/log"))).text()).trimEnd().split("\n"));
    let over = false;
    await readEvents(jobPath(id, "/events"), (name, data) => {
      if (name === "job") showJob(data, facts);
      if (name === "log") addLines([data.ts ? `${data.ts} ${data.level.padEnd(7)} ${data.line}` : data.line]);
      if (name === "end") over = true;
    });
    const job = await get(jobPath(id));
    showJob(job, facts);
    return over && OVER.has(job.state);
  });
  repeat(async () => {
    const job = await get(jobPath(id));
    curve.replaceChildren(curvePicture((await get(jobPath(id, "/curve"))).points));
    showTimeline(job, await get(jobPath(id, "/timeline")), history);
    const begin = Math.max(0, job.steps - 9);
    showLedger((await get(jobPath(id, `/ledger?begin=${begin}`))).lines.slice(-10), ledger);
    // A paused job has none.
    if (OVER.has(job.state) || job.state === "paused") plans.replaceChildren();
    else showPlans(await get(jobPath(id, "/plans")), plans);
    showExplanation(await get(jobPath(id, "/explain")), why);
    return OVER.has(job.state);
  });
}

function showExplanation({ summary, reasons }, place) {
  place.replaceChildren(element("h3", {}, "Why it waits, or is not faster"), element("p", {}, summary),
    reasons.length === 0 ? element("p", { class: "note" }, "The head knows of nothing that holds it up.")
      : element("ul", {}, ...reasons.map((reason) => element("li", {}, reason.text,
        reason.advice ? element("span", { class: "note" }, ` ${reason.advice}`) : null))));
}

// A link to the comparison with another job; the field offers the newest jobs.
function compareForm(job) {
  const names = element("datalist", { id: "jobs" });
  const other = element("input", { list: "jobs", required: true });
  get("/api/v1/jobs?limit=100").then(({ jobs }) => names.replaceChildren(
    ...jobs.filter((j) => j.job !== job).map((j) => element("option", { value: j.job }))), () => {});
  return element("form", {
    class: "row compare", onsubmit: (event) => {
      event.preventDefault();
      location.hash = `#/compare/${encodeURIComponent(job)}/${encodeURIComponent(other.value.trim())}`;
    },
  }, names, element("label", {}, "Another job", other), element("a", {
    href: "#", role: "button", class: "button", onclick: (event) => {
      event.preventDefault();
      event.target.closest("form").requestSubmit();
    },
  }, "Compare"));
}

// All lines of a ledger from `begin` on, as far as one answer goes.
const ledgerPart = (job, begin) => get(jobPath(job, `/ledger?begin=${begin}`));

// Reads both ledgers until they differ or one of them ends. Returns the first step whose parameters or
// losses differ (null: none), and the number of steps that were compared.
async function firstDifference(jobs, onProgress) {
  const lines = [new Map(), new Map()], next = [1, 1];
  let compared = 0;
  for (;;) {
    await Promise.all(jobs.map(async (job, i) => {
      if (lines[i].size > 0 || next[i] === 0) return;
      const part = await ledgerPart(job, next[i]);
      for (const line of part.lines) lines[i].set(line.version, line);
      next[i] = part.next;
    }));
    if (lines.some((known) => known.size === 0)) return { step: null, compared };
    for (const [version, a] of lines[0]) {
      const b = lines[1].get(version);
      if (b) {
        compared += 1;
        if (a.params !== b.params || JSON.stringify(a.losses) !== JSON.stringify(b.losses))
          return { step: version, compared };
      }
    }
    // What lies before the shorter part has been compared. The rest of the longer one waits.
    const last = Math.min(...lines.map((known) => Math.max(...known.keys())));
    for (const known of lines)
      for (const version of [...known.keys()]) if (version <= last) known.delete(version);
    onProgress(compared);
  }
}

function comparePage(names) {
  const facts = element("div"), curves = element("div");
  const verdict = element("p", { role: "status" }, "The ledgers are being read.");
  main.replaceChildren(element("h2", {}, `${names[0]} and ${names[1]}`), verdict,
    element("h3", {}, "Loss"), curves, element("h3", {}, "Both jobs"), facts);
  const link = (job) => element("a", { href: `#/jobs/${encodeURIComponent(job)}` }, job);
  repeat(async () => {
    const jobs = await Promise.all(names.map((name) => get(jobPath(name))));
    const rows = [["State", (j) => stateText(j.state)], ["Steps", (j) => `${j.steps} of ${j.steps_total}`],
      ["Level", (j) => j.level], ["ESTs", (j) => String(j.max_p)], ["Devices", (j) => j.placement],
      ["Samples/s, mean", (j) => number(j.samples_per_s_mean)], ["Last loss", (j) => number(j.loss_last)],
      ["Digest of the parameters", (j) => j.params_digest], ["Digest of the state", (j) => j.state_digest]];
    facts.replaceChildren(table("Both jobs", [["", "wide"], [link(names[0])], [link(names[1])]],
      rows.map(([name, value]) => [name, ...jobs.map(value)])));
    curves.replaceChildren(twoCurvesPicture(names,
      (await Promise.all(names.map((name) => get(jobPath(name, "/curve"))))).map((c) => c.points)));
    return jobs.every((job) => OVER.has(job.state));
  });
  repeat(async () => {
    const { step, compared } = await firstDifference(names, (count) => {
      verdict.textContent = `${count} steps are equal so far.`;
    });
    verdict.textContent = step !== null ? `The first step that differs is ${step}.`
      : compared > 0 ? `All ${compared} steps that both jobs have are equal, bit for bit.`
        : "The jobs have no step in common yet.";
    return compared > 0;
  });
}

// Queues as a tree, each with a row for every device type that says something.
function queuesTable(queues) {
  const rows = [];
  const add = (parent, depth) => queues.filter((q) => q.parent === parent).forEach((q) => {
    const types = q.types.filter((t) => t.used || t.guarantee || t.entitled || t.limit !== null);
    (types.length ? types : [null]).forEach((t, i) => rows.push([
      i === 0 ? `${"– ".repeat(depth)}${q.queue}` : "",
      ...(i === 0 ? [number(q.weight), String(q.running), String(q.waiting)] : ["", "", ""]),
      ...(t ? [t.type, String(t.used), String(t.guarantee), String(t.entitled), String(t.borrowed),
        t.limit === null ? null : String(t.limit)] : [null, "0", "0", "0", "0", null]),
      i === 0 && q.device_seconds !== null ? number(q.device_seconds / 3600, 3) : ""]));
    add(q.queue, depth + 1);
  });
  add(null, 0);
  return table("Queues", [["queue"], ["weight", "number"], ["running", "number"], ["waiting", "number"],
    ["type"], ["used", "number"], ["guarantee", "number"], ["entitled", "number"], ["borrowed", "number"],
    ["limit", "number"], ["device-hours of late", "number"]], rows);
}

function schedulerPage() {
  const place = element("div");
  main.replaceChildren(element("h2", {}, "Scheduler"), place);
  const link = (job) => element("a", { href: `#/jobs/${encodeURIComponent(job)}` }, job);
  const since = (job) => duration(Math.max(0, Date.now() - job.submitted_unix_ms) / 1000);
  repeat(async () => {
    const { jobs, total } = await get("/api/v1/jobs?state=live&limit=1000");
    const { nodes } = await get("/api/v1/nodes");
    const { queues } = await get("/api/v1/queues");
    const inOrder = jobs.toReversed();
    const waiting = inOrder.filter((job) => !job.placement);
    const running = inOrder.filter((job) => job.placement);
    const devices = nodes.flatMap((node) => node.alive ? node.devices : []);
    const tenantOf = new Map(jobs.map((job) => [job.job, job.tenant ?? "–"]));
    const held = new Map();
    for (const d of devices.filter((device) => device.job)) {
      const tenant = tenantOf.get(d.job) ?? "(another tenant)";
      held.set(tenant, (held.get(tenant) ?? 0) + 1);
    }
    place.replaceChildren(...[
      cards([["Waiting", String(waiting.length)], ["With devices", String(running.length)],
        ["Free devices", String(devices.filter((d) => !d.job && !d.suspect).length)],
        ["Devices", String(devices.length)]]),
      total > jobs.length ? element("p", { class: "note" }, `The newest ${jobs.length} of ${total} jobs are shown.`) : null,
      element("h3", {}, "Waiting jobs, in the order of their submission"),
      waiting.length ? table("Waiting jobs", [["", "number"], ["job"], ["state"], ["tenant"], ["submitted"], ["waits for", "wide"]],
        waiting.map((job, i) => [String(i + 1), link(job.job), stateText(job.state), job.tenant,
          `${since(job)} ago`, job.waiting_for ?? (job.state === "paused" ? "resume" : "")]))
        : element("p", { class: "note" }, "No job waits."),
      element("h3", {}, "Jobs with devices"),
      running.length ? table("Jobs with devices", [["job"], ["state"], ["tenant"], ["devices"], ["steps", "number"], ["wants", "wide"]],
        running.map((job) => [link(job.job), stateText(job.state), job.tenant, job.placement,
          `${job.steps} / ${job.steps_total}`, job.waiting_for ?? ""]))
        : element("p", { class: "note" }, "No job has devices."),
      element("h3", {}, "Devices by tenant"),
      held.size ? table("Devices by tenant", [["tenant"], ["devices", "number"], ["share", "number"]],
        [...held].map(([tenant, count]) => [tenant, String(count), `${number(100 * count / devices.length, 3)} %`]))
        : element("p", { class: "note" }, "All devices are free."),
      element("h3", {}, "Queues"),
      queues.length ? queuesTable(queues)
        : element("p", { class: "note" }, "This head was started without queues (--queues)."),
    ].filter((part) => part));
  });
}

async function clearDevice({ node, type, index }) {
  try {
    await request("POST", "/api/v1/devices/clear", { node: node.name, type, index });
    showFault("");
  } catch (error) {
    showFault(error.message);
  }
}

function clusterPage() {
  const place = element("div");
  main.replaceChildren(element("h2", {}, "Cluster"), place);
  repeat(async () => {
    const { nodes } = await get("/api/v1/nodes");
    const { claims } = await get("/api/v1/claims");
    const { utilisation, stragglers } = await get("/api/v1/cluster");
    const jobLink = (job) => element("a", { href: `#/jobs/${encodeURIComponent(job)}` }, job);
    const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
    const devices = nodes.flatMap((node) => node.devices.map((d) => ({ ...d, node })));
    const stateOf = (d) => !d.node.alive ? "lost" : d.suspect && !d.suspect_until ? "suspect"
      : d.job ? "busy" : d.suspect ? "aside" : "free";
    const types = new Map();
    for (const d of devices) {
      const row = types.get(d.type) ?? { busy: 0, free: 0, suspect: 0, aside: 0, lost: 0 };
      row[stateOf(d)] += 1;
      types.set(d.type, row);
    }
    place.replaceChildren(
      cards([["Nodes", String(nodes.length)], ["Devices", String(devices.length)],
        ["Busy", String(devices.filter((d) => stateOf(d) === "busy").length)],
        ["Suspect", String(devices.filter((d) => stateOf(d) === "suspect").length)],
        ["Set aside", String(devices.filter((d) => stateOf(d) === "aside").length)]]),
      element("h3", {}, "Devices by type"),
      table("Devices by type", [["type"], ["busy", "number"], ["free", "number"], ["suspect", "number"],
        ["set aside", "number"], ["lost", "number"]], [...types].map(([type, row]) =>
        [type, ...["busy", "free", "suspect", "aside", "lost"].map((state) => String(row[state]))])),
      element("h3", {}, "Utilisation over time"),
      linesPicture("Devices in use (solid) and all devices (dashed)", [
        { points: utilisation.map(([ms, busy]) => [ms, busy]) },
        { points: utilisation.map(([ms, , all]) => [ms, all]) }], clock, (value) => number(value, 3)) ??
        element("p", { class: "note" }, "The head notes it every 10 s; there are too few points yet."),
      element("h3", {}, "Slow devices"),
      stragglers.length ? table("Slow devices", [["node"], ["device"], ["job"], ["slower by", "number"]],
        stragglers.map((s) => [s.node, s.device, jobLink(s.job), `${number(s.slowness, 3)} ×`]))
        : element("p", { class: "note" }, "No device is slower than the others of its type."),
      element("h3", {}, "Devices out of use"),
      devices.some((d) => d.suspect) ? table("Devices out of use",
        [["node"], ["device"], ["why", "wide"], ["tried again"], [""]],
        devices.filter((d) => d.suspect).map((d) => [d.node.name, `${d.type}#${d.index}`, d.suspect,
          d.suspect_until ?? "not by itself",
          ["operate", "admin"].includes(identity.role) ? element("button", {
            type: "button", onclick: () => clearDevice(d),
          }, "Use again") : ""]))
        : element("p", { class: "note" }, "No audit has found a device that computes wrongly, and no device is set aside."),
      element("h3", {}, "Nodes"),
      table("Nodes", [["node"], ["state"], ["device"], ["held by"], ["note", "wide"]],
        devices.map((d) => [d.node.name,
          stateText(d.node.alive ? (d.node.draining ? "draining" : "alive") : "lost"),
          `${d.type}#${d.index}`,
          d.job ? (d.job.startsWith("claim:") ? d.job : jobLink(d.job)) : "", d.suspect ?? d.node.checkpoint_problem ?? ""])),
      element("h3", {}, "Claims"),
      claims.length ? table("Claims", [["claim"], ["type"], ["devices", "number"], ["of", "number"]],
        claims.map((c) => [c.claim, c.type, String(c.devices), String(c.count)]))
        : element("p", { class: "note" }, "No other load claims devices."));
  });
}

function show() {
  leaving.abort();
  leaving = new AbortController();
  showFault("");
  const [, page, id, other] = location.hash.split("/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${page || "jobs"}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (page === "cluster") clusterPage();
  else if (page === "scheduler") schedulerPage();
  else if (page === "compare" && other) comparePage([decodeURIComponent(id), decodeURIComponent(other)]);
  else if (id) jobPage(decodeURIComponent(id));
  else jobsPage();
}

async function start() {
  leaving.abort();
  leaving = new AbortController();
  try {
    identity = await get("/api/v1/identity");
  } catch (error) {
    if (error.status !== 401) {
      showFault("The head does not answer. This page tries again.");
      setTimeout(start, REFRESH_MS);
      return;
    }
    if (token) showFault("This token is not valid.");
    showLogin();
    return;
  }
  document.getElementById("who").textContent =
    `${identity.name} (${identity.role}${identity.tenant ? `, ${identity.tenant}` : ""})`;
  show();
}

window.addEventListener("hashchange", () => { if (identity) { show(); main.focus(); } });
start();
