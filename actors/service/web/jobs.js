// The list of jobs: progress, order, search, and what is done to several jobs at once.
import { get, jobPath, post, remove } from "./api.js";
import { amount, button, confirmed, counted, element, jobLink, number, progressBar, redraw,
  shortDuration, sortedTable, stateText } from "./dom.js";
import { OVER, attempt, heading, main, mayChangeJobs, repeat, showDone,
  showFault } from "./page.js";

const STATES = ["", "queued", "starting", "running", "rescaling", "paused", "finished", "failed",
  "cancelled", "timed-out"];

// What can be done to a job in this state.
export const ACTIONS = [
  { name: "Pause", path: "pause", fits: (state) => !OVER.has(state) && state !== "paused",
    text: "It writes a checkpoint and gives its devices back." },
  { name: "Resume", path: "resume", fits: (state) => state === "paused",
    text: "It continues as soon as there are devices for it." },
  { name: "Checkpoint", path: "checkpoint", quiet: true,
    fits: (state) => state === "running" || state === "rescaling" },
  { name: "Cancel", path: "cancel", danger: true, fits: (state) => !OVER.has(state),
    text: "It ends, and cannot be continued but from a checkpoint." },
  { name: "Remove", danger: true, fits: (state) => OVER.has(state),
    text: "Its ledger, evaluations and log are removed; its checkpoints stay." },
];

export const perform = (action, job) =>
  action.path ? post(jobPath(job, `/${action.path}`)) : remove(jobPath(job));

// --- columns

const ageOf = (job) => (Date.now() - job.submitted_unix_ms) / 1000;
const ifAny = (jobs, value, column) => jobs.some(value) ? [column] : [];

function nameCell(job) {
  const about = job.error ?? job.warning ?? (job.waiting_for ? `waits for ${job.waiting_for}` : "");
  return element("div", { class: "name" }, jobLink(job.job),
    about ? element("span", { class: job.error ? "about bad" : "about" }, about) : null);
}

function columnsOf(jobs, chosen) {
  const column = (name, kind, key, cell) => ({ name, kind, key, cell });
  return [
    ...(chosen ? [chosen] : []),
    column("job", "wide", (j) => j.job, nameCell),
    column("state", "of-state", (j) => j.state, (j) => stateText(j.state)),
    column("progress", "of-progress", (j) => j.steps / Math.max(1, j.steps_total),
      (j) => progressBar(j.steps, j.steps_total, `Progress of ${j.job}`)),
    column("time left", "number less", (j) => j.seconds_left ?? Infinity,
      (j) => j.seconds_left === null ? "–" : shortDuration(j.seconds_left)),
    column("age", "number less", ageOf, (j) => shortDuration(ageOf(j))),
    column("loss", "number less", (j) => j.loss_last ?? Infinity, (j) => number(j.loss_last)),
    column("samples/s", "number less", (j) => j.samples_per_s ?? 0,
      (j) => number(j.samples_per_s, 3)),
    column("devices", "less", (j) => j.placement, (j) => j.placement),
    ...ifAny(jobs, (j) => j.tenant, column("tenant", "less", (j) => j.tenant, (j) => j.tenant)),
    ...ifAny(jobs, (j) => j.submitter,
      column("submitter", "less", (j) => j.submitter, (j) => j.submitter)),
    ...ifAny(jobs, (j) => j.spent > 0 || j.price_per_hour > 0,
      column("spent", "number less", (j) => j.spent, (j) => amount(j.spent))),
  ];
}

// --- several jobs at once

// The jobs that are chosen, by their names, and the bar with what can be done to them.
class Chosen {
  constructor(onChange) {
    this.names = new Set();
    this.jobs = [];
    this.onChange = onChange;
    this.bar = element("div", { class: "row bulk", role: "group", "aria-label": "Chosen jobs" });
  }

  // Jobs that are shown no more are not chosen.
  keepOnly(jobs) {
    this.jobs = jobs;
    const shown = new Set(jobs.map((job) => job.job));
    for (const name of this.names) if (!shown.has(name)) this.names.delete(name);
    this.draw();
  }

  column() {
    const all = this.jobs.length > 0 && this.names.size === this.jobs.length;
    return {
      name: "chosen", kind: "choice",
      head: this.box("Choose all jobs", all, (on) => {
        for (const { job } of this.jobs) this.set(job, on);
      }),
      cell: ({ job }) => this.box(`Choose ${job}`, this.names.has(job), (on) => this.set(job, on)),
    };
  }

  set(job, on) {
    if (on) this.names.add(job);
    else this.names.delete(job);
  }

  box(label, checked, act) {
    return element("input", {
      type: "checkbox", "aria-label": label, checked, "data-key": label,
      onchange: (event) => { act(event.target.checked); this.onChange(); },
    });
  }

  draw() {
    const jobs = this.jobs.filter(({ job }) => this.names.has(job));
    const acts = ACTIONS.map((action) => {
      const fitting = jobs.filter(({ state }) => action.fits(state)).map(({ job }) => job);
      return button(`${action.name} (${fitting.length})`, () => this.act(action, fitting), {
        class: action.danger ? "danger" : undefined, disabled: fitting.length === 0,
        "data-key": action.name,
      });
    });
    const names = jobs.map(({ job }) => encodeURIComponent(job));
    redraw(this.bar, jobs.length === 0 ? [] : [
      element("b", {}, `${counted(jobs.length, "job")} chosen`), ...acts,
      button(`Compare (${names.length})`, () => { location.hash = `#/compare/${names.join("/")}`; },
        { disabled: names.length < 2, "data-key": "Compare" })]);
  }

  async act(action, jobs) {
    const sure = action.quiet || await confirmed({
      heading: `${action.name} ${counted(jobs.length, "job")}?`,
      text: [`${jobs.slice(0, 10).join(", ")}${jobs.length > 10 ? " and others" : ""}.`,
        jobs.length === 1 ? action.text : `For each of them: ${action.text}`],
      action: action.name, danger: action.danger,
    });
    if (!sure) return;
    showDone(`${action.name}: ${counted(jobs.length, "job")} asked.`);
    const results = await Promise.allSettled(jobs.map((job) => perform(action, job)));
    this.report(action, jobs, results);
    this.onChange();
  }

  report(action, jobs, results) {
    const failed = results.flatMap((result, i) => result.status === "rejected"
      ? [`${jobs[i]}: ${result.reason.status ? result.reason.message : "the head does not answer"}`]
      : []);
    const done = jobs.length - failed.length;
    showDone(done ? `${action.name}: done for ${counted(done, "job")}.` : "");
    showFault(failed.slice(0, 3).join("; ") + (failed.length > 3 ? "; and others" : ""));
  }
}

// --- the page

function filters(onInput) {
  const search = element("input", { type: "search" });
  const state = element("select", {}, ...STATES.map((name) =>
    element("option", { value: name }, name || "all")));
  const form = element("form", {
    class: "row", onsubmit: (event) => event.preventDefault(), oninput: onInput,
  }, element("label", {}, "Search", search), element("label", {}, "State", state));
  const query = (limit) => {
    const text = new URLSearchParams({ limit });
    if (search.value) text.set("search", search.value);
    if (state.value) text.set("state", state.value);
    return text;
  };
  return { form, query };
}

function countText({ jobs, total, warning }) {
  const sorted = jobs.length < total ? "; a column sorts those that are shown" : "";
  return `${jobs.length} of ${total} jobs${sorted}${warning ? `. ${warning}` : ""}`;
}

export function jobsPage() {
  const list = element("div"), count = element("p", { class: "note", role: "status" });
  const order = { name: "age", down: false };
  let limit = 50, shown = [];
  const chosen = mayChangeJobs() ? new Chosen(() => draw()) : null;
  const more = button("Show more", () => { limit += 200; update(); }, { hidden: true });
  const draw = () => {
    chosen?.keepOnly(shown);
    redraw(list, sortedTable("Jobs", columnsOf(shown, chosen?.column()), shown, order, draw));
  };
  const update = async () => {
    const answer = await get(`/api/v1/jobs?${query(limit)}`);
    shown = answer.jobs;
    count.textContent = countText(answer);
    more.hidden = shown.length >= answer.total;
    draw();
  };
  const { form, query } = filters(() => attempt(update));
  main.replaceChildren(heading("Jobs"), form, ...(chosen ? [chosen.bar] : []), count, list, more);
  repeat(update);
}
