// The page of a job, in parts: overview, charts, devices, configuration, log and proof.
import { get, jobPath, post, readEvents } from "./api.js";
import { compareForm } from "./compare.js";
import { differences, fieldTable } from "./config.js";
import { button, confirmed, element, note, redraw, stateText, tabs, title } from "./dom.js";
import { CourseCharts, DeviceTimes } from "./job_charts.js";
import { LogView, changes, explanation, headline, ledgerEnd, overview, plansTable, proof,
  timeShares, workers } from "./job_parts.js";
import { ACTIONS, perform } from "./jobs.js";
import { OVER, attempt, heading, main, mayChangeJobs, repeat, showMissing } from "./page.js";

const address = (id, part) => `#/jobs/${encodeURIComponent(id)}${part ? `/${part}` : ""}`;

// --- what can be done

async function act(action, id) {
  const sure = action.quiet || await confirmed({
    heading: `${action.name} ${id}?`, text: action.text, action: action.name, danger: action.danger,
  });
  if (!sure) return;
  const done = await attempt(() => perform(action, id), `${action.name}: done.`);
  if (done && action.name === "Remove") location.hash = "#/jobs";
}

// A field with a button that sends it.
function fieldForm(label, action, attributes, send) {
  const field = element("input", attributes);
  return element("form", { class: "row", onsubmit: (event) => {
    event.preventDefault();
    send(field.value.trim());
  } }, element("label", {}, label, field), element("button", {}, action));
}

async function scale(id, devices) {
  const sure = await confirmed({
    heading: `Scale ${id}?`, action: "Scale",
    text: devices ? `It moves to ${devices} at its next step, and stays there.`
      : "The scheduler chooses its devices from now on.",
  });
  if (sure) await attempt(() => post(jobPath(id, "/scale"), { devices }), "Scale: accepted.");
}

async function changeBudget(id, text) {
  const budget = Number(text);
  const sure = await confirmed({
    heading: `Change the budget of ${id}?`, action: "Change",
    text: `It may spend ${text} from its beginning on; 0 is no limit.`,
  });
  if (sure) await attempt(() => post(jobPath(id, "/budget"), { budget }), "The budget is changed.");
}

// The buttons that fit the state. They stay the same elements while it does.
class Actions {
  constructor(id) {
    this.id = id;
    this.buttons = element("div", { class: "row", role: "group", "aria-label": "Actions" });
    this.live = element("div", { class: "row forms", hidden: true },
      fieldForm("Devices", "Scale", { placeholder: "cpu-avx2:2; empty: the scheduler's choice" },
        (devices) => scale(id, devices)),
      fieldForm("Budget", "Change", { type: "number", min: 0, step: "any", required: true,
        placeholder: "0 for none" }, (budget) => changeBudget(id, budget)));
    this.place = element("div", {}, this.buttons, this.live);
  }

  show(state) {
    if (state === this.state) return;
    this.state = state;
    this.live.hidden = OVER.has(state);
    redraw(this.buttons,
      ...ACTIONS.filter((action) => action.fits(state)).map((action) =>
        button(action.name, () => act(action, this.id), {
          class: action.danger ? "danger" : undefined, "data-key": action.name,
        })),
      element("a", { class: "button", href: `#/submit/${encodeURIComponent(this.id)}` },
        "Submit again"));
  }
}

// --- the parts; each shows a job in its place, and what else it asks for, again and again

function overviewPart(id, follow) {
  const facts = element("div"), why = element("div"), time = element("div");
  const charts = new CourseCharts();
  follow((job) => redraw(facts, overview(job)));
  repeat(async () => {
    const job = await get(jobPath(id));
    const timeline = await get(jobPath(id, "/timeline"));
    charts.show({ ...job, evaluations: [] }, await get(jobPath(id, "/curve")), timeline);
    redraw(time, timeShares(job, timeline));
    redraw(why, explanation(await get(jobPath(id, "/explain"))));
    return OVER.has(job.state);
  }, { onMissing: () => {} });
  return [facts, why, charts.loss.figure, time];
}

function chartsPart(id) {
  const charts = new CourseCharts();
  repeat(async () => {
    const job = await get(jobPath(id));
    charts.show(job, await get(jobPath(id, "/curve")), await get(jobPath(id, "/timeline")));
    return OVER.has(job.state);
  }, { onMissing: () => {} });
  return [note("Drag over a part of a chart to see it larger; press twice for the whole. " +
    "The time is that since the head has the job."), charts.place, title("Compare"),
    compareForm([id])];
}

function devicesPart(id, follow) {
  const now = element("div"), list = element("div"), plans = element("div");
  const times = new DeviceTimes();
  const none = note("The job has not trained under this head.");
  none.hidden = true;
  follow((job) => redraw(now, workers(job)));
  repeat(async () => {
    const job = await get(jobPath(id)), { spans } = await get(jobPath(id, "/timeline"));
    none.hidden = spans.length > 0;
    times.show(spans);
    redraw(list, changes(spans));
    // A paused job has none.
    const asks = !OVER.has(job.state) && job.state !== "paused";
    redraw(plans, asks ? plansTable(await get(jobPath(id, "/plans"))) : []);
    return OVER.has(job.state);
  }, { onMissing: () => {} });
  return [now, title("Devices over time"), none, times.figure, list, plans];
}

function differenceForm(id) {
  const place = element("div");
  const other = element("input", { required: true });
  const form = element("form", { class: "row", onsubmit: (event) => {
    event.preventDefault();
    attempt(async () => redraw(place, differences(
      await Promise.all([id, other.value.trim()].map((name) => get(jobPath(name)))))));
  } }, element("label", {}, "Difference from another job", other),
  element("button", {}, "Show"));
  return element("div", {}, form, place);
}

function configurationPart(id, follow) {
  const place = element("div");
  follow((job) => {
    // The configuration of a job does not change; events do not carry it.
    if (job.spec_toml && !place.hasChildNodes()) place.append(fieldTable(job));
  });
  return [differenceForm(id), title("Configuration"), place];
}

function logPart(id, follow) {
  const log = new LogView(id);
  log.form.addEventListener("submit", () => attempt(() => log.read()));
  repeat(() => log.readOn());
  follow((job) => log.offer(job.workers.map((w) => [String(w.incarnation), w.node])), log);
  return [log.place];
}

function proofPart(id) {
  const place = element("div");
  repeat(async () => {
    const job = await get(jobPath(id));
    const { checkpoints } = await get(jobPath(id, "/timeline"));
    redraw(place, proof(job, await ledgerEnd(job), checkpoints));
    return OVER.has(job.state);
  }, { onMissing: () => {} });
  return [place];
}

const PARTS = {
  "": ["Overview", overviewPart], charts: ["Charts", chartsPart],
  devices: ["Devices", devicesPart], config: ["Configuration", configurationPart],
  log: ["Log", logPart], proof: ["Ledger", proofPart],
};

// --- the page

// Follows a job: its state by the stream of events, until it is over. The stream ends with the job
// or with the head; after a restart of the head it begins again.
function followJob(id, show, log) {
  const missing = (error) => showMissing(`There is no job ${id}`,
    element("a", { href: "#/jobs" }, "All jobs"), `${error.message}.`);
  repeat(async (answered) => {
    show(await get(jobPath(id)));
    if (log) await log.read();
    answered();
    let over = false;
    await readEvents(jobPath(id, "/events"), (name, data) => {
      if (name === "job") show(data);
      if (name === "log") log?.add(data);
      if (name === "end") over = true;
    });
    const job = await get(jobPath(id));
    show(job);
    return over && OVER.has(job.state);
  }, { onMissing: missing });
}

export function jobPage(id, part = "") {
  const [name, make] = PARTS[part] ?? PARTS[""];
  const state = element("span"), progress = element("div", { class: "headline" });
  const actions = mayChangeJobs() ? new Actions(id) : null;
  const place = element("div");
  const shows = [(job) => {
    redraw(state, stateText(job.state));
    redraw(progress, headline(job));
    actions?.show(job.state);
  }];
  let log = null;
  const content = make(id, (show, followed) => {
    shows.push(show);
    log = followed ?? log;
  });
  main.replaceChildren(...[heading(id, " ", state), progress, actions?.place,
    tabs(`Parts of ${id}`, Object.entries(PARTS).map(([key, [text]]) => [text, address(id, key)]),
      name), place].filter((element) => element));
  place.replaceChildren(...content);
  followJob(id, (job) => shows.forEach((show) => show(job)), log);
}
