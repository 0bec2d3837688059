// Several jobs beside each other: curves, facts, configurations, and the first step that differs.
import { get, jobPath } from "./api.js";
import { Chart } from "./charts.js";
import { differences } from "./config.js";
import { button, element, jobLink, note, number, redraw, stateText, table, title } from "./dom.js";
import { MetricCharts, byTime, lossPoints } from "./job_charts.js";
import { OVER, heading, main, repeat, showMissing } from "./page.js";

const JOBS_MAX = 8;
const pathOf = (names) => `#/compare/${names.map(encodeURIComponent).join("/")}`;

// A form for the name of one more job; the field offers the newest ones.
export function compareForm(names) {
  const offered = element("datalist", { id: "jobs" });
  const other = element("input", { list: "jobs", required: true });
  get("/api/v1/jobs?limit=100").then(({ jobs }) => offered.replaceChildren(
    ...jobs.filter((j) => !names.includes(j.job))
      .map((j) => element("option", { value: j.job }))), () => {});
  return element("form", {
    class: "row compare", onsubmit: (event) => {
      event.preventDefault();
      location.hash = pathOf([...names, other.value.trim()]);
    },
  }, offered, element("label", {}, "Another job", other),
  element("button", {}, "Compare"));
}

// --- the ledgers

// Reads both ledgers until they differ or one of them ends. Returns the first step whose parameters
// or losses differ (null: none), and the number of steps that were compared.
async function firstDifference(jobs, onProgress) {
  const lines = [new Map(), new Map()], next = [1, 1];
  let compared = 0;
  for (;;) {
    await Promise.all(jobs.map(async (job, i) => {
      if (lines[i].size > 0 || next[i] === 0) return;
      const part = await get(jobPath(job, `/ledger?begin=${next[i]}`));
      for (const line of part.lines) lines[i].set(line.version, line);
      next[i] = part.next;
    }));
    if (lines.some((known) => known.size === 0)) return { step: null, compared };
    for (const [version, a] of lines[0]) {
      const b = lines[1].get(version);
      if (!b) continue;
      compared += 1;
      if (a.params !== b.params || JSON.stringify(a.losses) !== JSON.stringify(b.losses))
        return { step: version, compared };
    }
    // What lies before the shorter part has been compared. The rest of the longer one waits.
    const last = Math.min(...lines.map((known) => Math.max(...known.keys())));
    for (const known of lines)
      for (const version of [...known.keys()]) if (version <= last) known.delete(version);
    onProgress(compared);
  }
}

function verdictText({ step, compared }) {
  if (step !== null) return `The first step that differs is ${step}.`;
  if (compared > 0) return `All ${compared} steps that both jobs have are equal, bit for bit.`;
  return "The jobs have no step in common yet.";
}

// A line for each job but the first, which is compared with it.
function verdicts(names) {
  const places = names.slice(1).map(() => element("span", {}, "The ledgers are being read."));
  const pair = (i) => names.length > 2
    ? element("b", {}, `${names[0]} and ${names[i + 1]}: `) : null;
  const list = element("ul", { class: "verdicts" },
    ...places.map((place, i) => element("li", {}, pair(i), place)));
  repeat(async () => {
    const results = [];
    for (const [i, place] of places.entries()) {
      results.push(await firstDifference([names[0], names[i + 1]], (count) => {
        place.textContent = `${count} steps are equal so far.`;
      }));
      place.textContent = verdictText(results.at(-1));
    }
    return results.every(({ compared }) => compared > 0);
  }, { onMissing: () => {} });
  return element("div", { role: "status" }, list);
}

// --- the page

const FACTS = [
  ["State", (j) => stateText(j.state)], ["Steps", (j) => `${j.steps} of ${j.steps_total}`],
  ["Level", (j) => j.level], ["ESTs", (j) => String(j.max_p)], ["Devices", (j) => j.placement],
  ["Samples/s, mean", (j) => number(j.samples_per_s_mean)],
  ["Last loss", (j) => number(j.loss_last)],
  ["Digest of the parameters", (j) => j.params_digest],
  ["Digest of the state", (j) => j.state_digest],
];

function factsTable(jobs, names) {
  const without = (name) => names.length <= 2 ? null : button("Take out", () => {
    location.hash = pathOf(names.filter((other) => other !== name));
  }, { class: "small", "aria-label": `Take out ${name}`, "data-key": `out ${name}` });
  const heads = jobs.map((job, i) =>
    [element("span", {}, jobLink(job.job), " ", without(names[i]))]);
  return table("Jobs", [["", "field"], ...heads],
    FACTS.map(([name, value]) => [name, ...jobs.map(value)]));
}

// The curves of all jobs, and a chart for each metric that one of them has.
class Curves {
  constructor() {
    const axes = { step: "step", time: "seconds" };
    this.loss = new Chart("Loss", { axes, onAxis: () => this.redraw() });
    this.metrics = new MetricCharts();
    this.place = element("div", {}, this.loss.figure, this.metrics.place);
  }

  show(parts) {
    this.parts = parts;
    this.redraw();
  }

  redraw() {
    if (!this.parts) return;
    const mean = ([step, , value]) => [step, value];
    this.loss.show(this.parts.map(({ job, curve, timeline }) => {
      const points = lossPoints(curve).map(mean);
      const time = this.loss.axis === "seconds";
      return { name: job.job, points: time ? byTime(points, timeline.progress) : points };
    }));
    this.metrics.show(this.parts.map(({ job }) => [job.job, job.evaluations]));
  }
}

async function partsOf(name) {
  const [job, curve, timeline] = await Promise.all(
    ["", "/curve", "/timeline"].map((rest) => get(jobPath(name, rest))));
  return { job, curve, timeline };
}

export function comparePage(given) {
  const names = [...new Set(given)].slice(0, JOBS_MAX);
  const all = element("a", { href: "#/jobs" }, "All jobs");
  if (names.length < 2) {
    main.replaceChildren(heading("Compare jobs"), note("Name another job."), compareForm(names));
    return;
  }
  const facts = element("div"), config = element("div"), curves = new Curves();
  const dropped = given.length > names.length
    ? note(`At most ${JOBS_MAX} different jobs are compared.`) : null;
  const missing = (error) => showMissing("A job is not there", all, `${error.message}.`);
  main.replaceChildren(...[heading(names.length === 2 ? names.join(" and ")
    : `${names.length} jobs`), dropped, verdicts(names), curves.place, title("Jobs"), facts,
  title("Configurations that differ"), config, compareForm(names)].filter((part) => part));
  repeat(async () => {
    const parts = await Promise.all(names.map(partsOf));
    const jobs = parts.map(({ job }) => job);
    redraw(facts, factsTable(jobs, names));
    redraw(config, differences(jobs));
    curves.show(parts);
    return jobs.every((job) => OVER.has(job.state));
  }, { onMissing: missing });
}
