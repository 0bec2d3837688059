// What is shown of one job: facts, devices, time, plans, ledger and log.
import { get, jobPath, request } from "./api.js";
import { amount, cards, clock, duration, element, nodeLink, note, number, percent, progressBar,
  shortDuration, table, title } from "./dom.js";
import { CAUSES } from "./job_charts.js";

// --- the overview

export function secondsLeft(job) {
  const stage = job.stages.at(-1);
  if (!job.samples_per_s || !(stage?.steps > 0) || job.steps >= job.steps_total) return null;
  return (job.steps_total - job.steps) * stage.seconds / stage.steps;
}

const problem = (text) => text ? element("p", { class: "fault" }, text) : null;

export function overview(job) {
  const left = secondsLeft(job);
  const end = job.ended_unix_ms ?? Date.now();
  return [
    problem(job.error), problem(job.warning),
    job.waiting_for ? note(`Waits for ${job.waiting_for}.`) : null,
    cards([["Time left", left === null ? null : duration(left)],
      ["Since its submission", shortDuration((end - job.submitted_unix_ms) / 1000)],
      ["Loss", number(job.loss_last)], ["Samples/s now", number(job.samples_per_s)],
      ["Samples/s, mean", number(job.samples_per_s_mean)], ["Devices", job.placement],
      ["Level", job.level], ["ESTs", String(job.max_p)],
      job.submitter ? ["Submitter", job.submitter] : null,
      job.tenant ? ["Tenant", job.tenant] : null,
      job.spent > 0 ? ["Spent", amount(job.spent)] : null,
      job.price_per_hour > 0 ? ["Costs in an hour", amount(job.price_per_hour)] : null,
      job.budget === null ? null : ["Budget", amount(job.budget)]]),
  ];
}

export const headline = (job) =>
  progressBar(job.steps, job.steps_total, `Progress of ${job.job}`);

export function explanation({ summary, reasons }) {
  return [title("Why it waits, or is not faster"), element("p", {}, summary),
    reasons.length === 0 ? note("The head knows of nothing that holds it up.")
      : element("ul", {}, ...reasons.map((reason) => element("li", {}, reason.text,
        reason.advice ? element("span", { class: "note" }, ` ${reason.advice}`) : null)))];
}

// --- devices

// The share of the time in which the device of a worker computes local steps: the samples that it
// has to compute in a second beside those that it could. null: not known.
export function computingShare(job, worker) {
  if (!job.samples_per_s || !worker.samples_per_second) return null;
  const needed = job.samples_per_s * (worker.rank_end - worker.rank_begin) / job.max_p;
  return Math.min(1, needed / worker.samples_per_second);
}

const ranks = ({ rank_begin: begin, rank_end: end }) =>
  end - begin === 1 ? String(begin) : `${begin} to ${end - 1}`;
const mebibytes = (bytes) => number(bytes / 2 ** 20, 3);

export function workers(job) {
  const columns = [["node"], ["device"], ["ESTs"], ["step ms", "number"], ["samples/s", "number"],
    ["computes", "number"], ["MiB, peak", "number"], ["MiB sent", "number"],
    ["slowness", "number"], ["log of the worker"]];
  const rows = job.workers.map((w) => [nodeLink(w.node), nodeLink(w.node, w.device), ranks(w),
    number(w.local_step_seconds === null ? null : 1000 * w.local_step_seconds),
    number(w.samples_per_second), percent(computingShare(job, w)), number(w.peak_rss_mib, 3),
    mebibytes(w.sent_bytes), number(w.slowness, 3),
    element("code", {}, `worker-${w.incarnation}.log`)]);
  if (rows.length === 0) return [title("ESTs on devices"), note("The job has no devices now.")];
  return [title("ESTs on devices"), table("ESTs on devices", columns, rows),
    note("A worker writes its log into the run directory (--run-dir) of its node; Log shows its " +
      "end.")];
}

export function changes(spans) {
  if (spans.length === 0) return null;
  const columns = [["after", "number"], ["why"], ["pause", "number"], ["from step", "number"],
    ["steps", "number"], ["trained", "number"], ["devices", "wide"]];
  return table("Changes of devices", columns, spans.slice(-12).toReversed().map((span) => [
    duration(span.begin_seconds), span.cause ? CAUSES[span.cause] ?? span.cause : "begin",
    span.cause ? duration(span.pause_seconds) : "", String(span.first_step + 1),
    String(span.steps), duration(span.seconds), span.devices.join(", ")]));
}

// What other devices would bring, compared with the present ones.
export function plansTable({ plans }) {
  const now = plans.find((plan) => plan.runs);
  const columns = [["devices"], ["ESTs each"], ["step", "number"], ["speed", "number"], ["speeds"],
    [""]];
  return [title("What other devices would bring"), plans.length === 0 ? note("There are no plans.")
    : table("Plans", columns, plans.slice(0, 12).map((plan) => [plan.devices,
      plan.parts.map((part) => part.ests_per_device).join(", "), duration(plan.seconds_per_step),
      now ? `${number(now.seconds_per_step / plan.seconds_per_step, 3)} ×` : null,
      plan.measured ? "measured" : "assumed", plan.runs ? "runs" : ""]))];
}

// --- time

// Where the time went that this head has seen of the job: progress, and what it lost, by cause.
function sharesOf(job, timeline) {
  const training = timeline.spans.length ? job.stages.reduce((sum, s) => sum + s.seconds, 0) : 0;
  const data = training * job.data_wait_share, switching = training * job.context_switch_share;
  const parts = [["progress", "stage", training - data - switching],
    ["waiting for data", "data", data], ["switching between ESTs", "switching", switching],
    ...timeline.pauses.map((p) => [CAUSES[p.cause] ?? p.cause, "pause", p.seconds])];
  return { whole: parts.reduce((sum, part) => sum + part[2], 0), parts };
}

function sharesBar({ whole, parts }) {
  const text = parts.map(([name, , seconds]) => `${name} ${percent(seconds / whole)}`).join(", ");
  const bar = element("div", { class: "shares", role: "img", "aria-label": text });
  for (const [name, kind, seconds] of parts) {
    const part = element("span", { class: kind, title: name });
    part.style.flexGrow = Math.max(0, seconds) / whole;
    bar.append(part);
  }
  return element("figure", {}, bar, element("figcaption", {}, `Of ${duration(whole)}: ${text}.`));
}

export function timeShares(job, timeline) {
  const shares = sharesOf(job, timeline);
  if (shares.whole <= 0) return [];
  const bytes = timeline.exchanged_bytes;
  return [title("Where the time went"), sharesBar(shares),
    cards([["Time with progress (ETTR)", percent(shares.parts[0][2] / shares.whole)],
      ["Recoveries", String(timeline.recoveries)],
      ["Steps repeated", String(timeline.repeated_steps)],
      ["Processes started again", String(timeline.start_retries)],
      ["MiB by messages", mebibytes(bytes.message)],
      ["MiB by shared memory", mebibytes(bytes.shared_memory)],
      ["MiB by GPU channels", mebibytes(bytes.gpu_channel)]])];
}

// --- proof

function decisions({ decisions: made }) {
  if (made === null) return null;
  const { best, reductions, reduced_at: reducedAt, stopped_at: stoppedAt } = made;
  return cards([
    best && ["Best", `${best.metric} ${number(best.value)} after step ${best.version}`],
    best && ["Its checkpoint", best.checkpoint],
    reductions > 0 ? ["Learning rate lowered", `${reductions} times` +
      (reducedAt === null ? "" : `, last after step ${reducedAt}`)] : null,
    stoppedAt === null ? null : ["Ended early", `after step ${stoppedAt}`]]);
}

export function evaluations(job) {
  if (job.evaluations.length === 0) return null;
  const shown = (e) => Object.entries(e)
    .filter(([name]) => !["version", "total", "metric"].includes(name))
    .map(([name, value]) => `${name} ${number(value)}`).join(", ");
  return table("Evaluations", [["step", "number"], ["metrics", "wide"]],
    job.evaluations.slice(-10).toReversed().map((e) => [String(e.version), shown(e)]));
}

export function proof(job, lines, checkpoints) {
  const mean = ({ losses }) => losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
  return [
    cards([["Digest of the parameters", job.params_digest],
      ["Digest of the state", job.state_digest]]),
    title("Checkpoints"),
    cards([["Newest", job.checkpoint], ["Written", String(checkpoints.written)],
      ["Failed", String(checkpoints.failed)],
      ["Mean time", checkpoints.written ? duration(checkpoints.seconds / checkpoints.written)
        : null],
      ["Submitted", clock(job.submitted_unix_ms)],
      ["Ended", job.ended_unix_ms === null ? null : clock(job.ended_unix_ms)]]),
    title("Ledger"), lines.length === 0 ? note("There are no lines yet.")
      : table("Ledger", [["step", "number"], ["mean loss", "number"], ["digest of the parameters"]],
        lines.toReversed().map((line) => [String(line.version), number(mean(line), 6),
          element("code", {}, line.params)])),
    job.evaluations.length ? title("Evaluations") : null, decisions(job), evaluations(job)];
}

export const ledgerEnd = async (job) => (await get(jobPath(job.job,
  `/ledger?begin=${Math.max(0, job.steps - 9)}`))).lines.slice(-10);

// --- the log

const LINES_MAX = 500;
const LEVELS = { "": "all", info: "information and above", warning: "warnings and errors",
  error: "errors" };

// A worker that the log of its job names: "worker 17 on first/cpu-avx2:0 was killed".
const NAMED_WORKER = /\bworker (\d+) on ([^\s/]+)\//g;

const linesOf = (text) => (text.trimEnd() === "" ? [] : text.trimEnd().split("\n"));

// The newest lines of the log of a job or of one of its workers, with those to come. Lines of the
// log of a job that are chosen by filters are not followed.
export class LogView {
  constructor(id) {
    this.id = id;
    this.lines = [];
    this.number = 0;  // of all lines, also of older ones that are not shown
    // What is shown: the query, the worker, and of its log the end so far and whether it is over.
    this.chosen = { query: "", worker: "", end: undefined, complete: false };
    this.pre = element("pre", { tabindex: "0", role: "region", "aria-label": "Log" });
    this.level = element("select", {}, ...Object.entries(LEVELS).map(([value, name]) =>
      element("option", { value }, name)));
    this.nodes = new Map();  // of the workers that can be chosen
    this.worker = element("select", { onchange: () => this.form.requestSubmit() },
      element("option", { value: "" }, "all: what the head knows"));
    this.grep = element("input", { type: "search" });
    this.since = element("input", { placeholder: "10m, or a time in UTC" });
    this.count = element("p", { class: "note", role: "status" });
    this.form = element("form", { class: "row", onsubmit: (event) => event.preventDefault() },
      element("label", {}, "Worker", this.worker), element("label", {}, "Level", this.level),
      element("label", {}, "Contains", this.grep),
      element("label", {}, "Since", this.since), element("button", {}, "Show"));
    this.place = element("div", {}, this.form, this.count, this.pre);
  }

  // Offers the workers of a job; those that have ended are named by its log.
  offer(workers) {
    for (const [worker, node] of workers) {
      if (this.nodes.has(worker)) continue;
      this.nodes.set(worker, node);
      const after = [...this.worker.options].find(({ value }) => Number(value) > Number(worker));
      this.worker.insertBefore(
        element("option", { value: worker }, `worker ${worker} on ${node}`), after ?? null);
    }
  }

  query() {
    const query = new URLSearchParams();
    if (this.worker.value) {
      query.set("worker", this.worker.value);
      query.set("node", this.nodes.get(this.worker.value));
    }
    if (this.level.value) query.set("level", this.level.value);
    if (this.grep.value) query.set("grep", this.grep.value);
    if (this.since.value.trim()) query.set("since", this.since.value.trim());
    return String(query);
  }

  // Reads what the filters choose.
  async read() {
    const chosen = { query: this.query(), worker: this.worker.value };
    this.chosen = chosen;
    const lines = await this.next(chosen);
    if (chosen === this.chosen) this.set(lines, lines.length);
  }

  // Reads what the chosen worker has written since.
  async readOn() {
    const { chosen } = this;
    if (!chosen.worker || chosen.end === undefined || chosen.complete) return;
    try {
      const lines = await this.next(chosen);
      if (chosen === this.chosen && lines.length) this.append(lines);
    } catch (error) {
      // Its node may be away for a while.
      if (error.status !== 404) throw error;
    }
  }

  async next(chosen) {
    const begin = chosen.end === undefined ? "" : `&begin=${chosen.end}`;
    const answer = await request("GET", jobPath(this.id, `/log?${chosen.query}${begin}`));
    const lines = linesOf(await answer.text());
    chosen.end = answer.headers.get("Log-End") ?? undefined;
    chosen.complete = answer.headers.get("Log-Complete") === "true";
    return lines;
  }

  // A line of the stream of the job; one that is chosen by filters does not follow it.
  add({ ts, level, line }) {
    if (!this.chosen.query) this.append([ts ? `${ts} ${level.padEnd(7)} ${line}` : line]);
  }

  append(lines) {
    this.set([...this.lines, ...lines], this.number + lines.length);
  }

  set(lines, number) {
    const { scrollTop, clientHeight, scrollHeight } = this.pre;
    const atEnd = scrollTop + clientHeight >= scrollHeight - 8;
    this.lines = lines.slice(-LINES_MAX);
    this.number = number;
    if (!this.chosen.worker) this.offer([...lines.join("\n").matchAll(NAMED_WORKER)]
      .map(([, worker, node]) => [worker, node]));
    this.pre.textContent = this.lines.join("\n");
    this.count.textContent = number === 0 ? "No line."
      : number > LINES_MAX ? `The newest ${LINES_MAX} lines of ${number}.` : `Lines: ${number}.`;
    if (atEnd) this.pre.scrollTop = this.pre.scrollHeight;
  }
}
