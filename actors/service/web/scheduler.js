// The scheduler: who waits and for what, what each tenant holds, and the queues.
import { get } from "./api.js";
import { cards, element, jobLink, note, number, percent, redraw, shortDuration, stateText, table,
  title } from "./dom.js";
import { heading, main, repeat } from "./page.js";

// Queues as a tree, each with a row for every device type that says something.
function queuesTable(queues) {
  const rows = [];
  const add = (parent, depth) => queues.filter((q) => q.parent === parent).forEach((q) => {
    const types = q.types.filter((t) => t.used || t.guarantee || t.entitled || t.limit !== null);
    (types.length ? types : [null]).forEach((t, i) => rows.push(queueRow(q, t, i === 0, depth)));
    add(q.queue, depth + 1);
  });
  add(null, 0);
  return table("Queues", [["queue"], ["weight", "number"], ["running", "number"],
    ["waiting", "number"], ["type"], ["used", "number"], ["guarantee", "number"],
    ["entitled", "number"], ["borrowed", "number"], ["limit", "number"],
    ["device-hours of late", "number"]], rows);
}

// The first row of a queue has what does not depend on the type.
function queueRow(q, t, first, depth) {
  const counts = t ? [t.type, String(t.used), String(t.guarantee), String(t.entitled),
    String(t.borrowed), t.limit === null ? null : String(t.limit)]
    : [null, "0", "0", "0", "0", null];
  const late = first && q.device_seconds !== null ? number(q.device_seconds / 3600, 3) : "";
  return [first ? `${"– ".repeat(depth)}${q.queue}` : "",
    ...(first ? [number(q.weight), String(q.running), String(q.waiting)] : ["", "", ""]),
    ...counts, late];
}

const since = (job) => shortDuration(Math.max(0, Date.now() - job.submitted_unix_ms) / 1000);

function waitingTable(waiting) {
  if (waiting.length === 0) return note("No job waits.");
  return table("Waiting jobs", [["", "number"], ["job", "wide"], ["state"], ["tenant", "less"],
    ["age", "number"], ["waits for", "wide"]], waiting.map((job, i) => [String(i + 1),
    jobLink(job.job), stateText(job.state), job.tenant, since(job),
    job.waiting_for ?? (job.state === "paused" ? "resume" : "")]));
}

function runningTable(running) {
  if (running.length === 0) return note("No job has devices.");
  return table("Jobs with devices", [["job", "wide"], ["state"], ["tenant", "less"], ["devices"],
    ["steps", "number"], ["wants", "wide"]], running.map((job) => [jobLink(job.job),
    stateText(job.state), job.tenant, job.placement, `${job.steps} / ${job.steps_total}`,
    job.waiting_for ?? ""]));
}

function tenantsTable(devices, jobs) {
  const tenantOf = new Map(jobs.map((job) => [job.job, job.tenant ?? "–"]));
  const held = new Map();
  for (const { job } of devices.filter((device) => device.job)) {
    const tenant = job.startsWith("claim:") ? job : tenantOf.get(job) ?? "(another tenant)";
    held.set(tenant, (held.get(tenant) ?? 0) + 1);
  }
  if (held.size === 0) return note("All devices are free.");
  return table("Devices by tenant", [["tenant"], ["devices", "number"], ["share", "number"]],
    [...held].map(([tenant, count]) => [tenant, String(count), percent(count / devices.length)]));
}

function content({ jobs, total }, nodes, queues) {
  const inOrder = jobs.toReversed();
  const waiting = inOrder.filter((job) => !job.placement);
  const running = inOrder.filter((job) => job.placement);
  const devices = nodes.flatMap((node) => node.alive ? node.devices : []);
  const free = devices.filter((d) => !d.job && !d.suspect).length;
  return [
    cards([["Waiting", String(waiting.length)], ["With devices", String(running.length)],
      ["Free devices", String(free)], ["Devices", String(devices.length)]]),
    total > jobs.length ? note(`The newest ${jobs.length} of ${total} jobs are shown.`) : null,
    title("Waiting jobs, in the order of their submission"), waitingTable(waiting),
    title("Jobs with devices"), runningTable(running),
    title("Devices by tenant"), tenantsTable(devices, jobs),
    title("Queues"), queues.length ? queuesTable(queues)
      : note("This head was started without queues (--queues)."),
  ];
}

export function schedulerPage() {
  const place = element("div");
  main.replaceChildren(heading("Scheduler"), place);
  repeat(async () => {
    const list = await get("/api/v1/jobs?state=live&limit=1000");
    const { nodes } = await get("/api/v1/nodes"), { queues } = await get("/api/v1/queues");
    redraw(place, content(list, nodes, queues));
  });
}
