// The cluster: a map of its devices, what is wrong with them, and each node over time.
import { get, post } from "./api.js";
import { Chart } from "./charts.js";
import { DeviceMap, STATES, deviceName, devicesOf, holder, stateOf } from "./devices.js";
import { button, cards, confirmed, counted, element, jobLink, nodeLink, note, number, percent,
  redraw, sortedTable, stateText, table, tabs, title } from "./dom.js";
import { attempt, heading, main, may, repeat, showMissing } from "./page.js";

const mayOperate = () => may("operate", "admin");

// --- what can be done

async function useAgain(device) {
  const name = `${device.node.name} ${deviceName(device)}`;
  const sure = await confirmed({
    heading: `Use ${name} again?`, action: "Use again", text: `It is out of use: ${device.suspect}`,
  });
  const place = { node: device.node.name, type: device.type, index: device.index };
  if (sure) await attempt(() => post("/api/v1/devices/clear", place),
    `${name} may be used again.`);
}

async function drain(node) {
  const sure = await confirmed({
    heading: node.draining ? `Use ${node.name} again?` : `Drain ${node.name}?`,
    action: node.draining ? "Use again" : "Drain", danger: !node.draining,
    text: node.draining ? "Jobs may use it again." : "All jobs leave it now, and none comes back.",
  });
  if (!sure) return;
  await attempt(() => post(`/api/v1/nodes/${encodeURIComponent(node.name)}/drain`,
    node.draining ? { cancel: true } : {}), "Done.");
}

const drainButton = (node) => mayOperate() && node.alive
  ? button(node.draining ? "Use again" : "Drain", () => drain(node), {
    class: node.draining ? "small" : "small danger", "data-key": `drain ${node.name}`,
    "aria-label": `${node.draining ? "Use again" : "Drain"} ${node.name}`,
  }) : "";

// --- the parts

function summary(nodes) {
  const devices = devicesOf(nodes);
  const count = (state) => String(devices.filter((d) => stateOf(d) === state).length);
  return cards([["Nodes", String(nodes.length)], ["Devices", String(devices.length)],
    ...Object.entries(STATES).map(([state, name]) =>
      [name[0].toUpperCase() + name.slice(1), count(state)])]);
}

function typesTable(nodes) {
  const types = new Map();
  for (const device of devicesOf(nodes)) {
    if (!types.has(device.type))
      types.set(device.type, Object.fromEntries(Object.keys(STATES).map((state) => [state, 0])));
    types.get(device.type)[stateOf(device)] += 1;
  }
  const columns = [["type"], ...Object.values(STATES).map((name) => [name, "number"])];
  return table("Devices by type", columns,
    [...types].map(([type, counts]) => [type, ...Object.values(counts).map(String)]));
}

function mapPart() {
  const place = element("div"), types = element("div"), map = new DeviceMap();
  repeat(async () => {
    const { nodes } = await get("/api/v1/nodes");
    redraw(place, summary(nodes));
    map.show(nodes);
    redraw(types, typesTable(nodes));
  });
  return [place, map.place, title("Devices by type"), types];
}

function timePart() {
  const chart = new Chart("Devices", { axis: "clock", from0: true, log: false,
    write: (y) => number(y, 4) });
  repeat(async () => {
    const { utilisation } = await get("/api/v1/cluster");
    chart.show([
      { name: "in use", points: utilisation.map(([ms, busy]) => [ms, busy]) },
      { name: "all", points: utilisation.map(([ms, , all]) => [ms, all]) }]);
  });
  return [chart.figure, note("The head notes it every 10 s since its start. The page of a node " +
    "has each of its devices over time.")];
}

function outOfUse(devices) {
  const out = devices.filter((d) => d.suspect);
  if (out.length === 0)
    return note("No audit has found a device that computes wrongly, and no device is set aside.");
  return table("Devices out of use", [["node"], ["device"], ["why", "wide"], ["tried again"], [""]],
    out.map((d) => [nodeLink(d.node.name), nodeLink(d.node.name, deviceName(d)), d.suspect,
      d.suspect_until ?? "not by itself",
      mayOperate() ? button("Use again", () => useAgain(d), {
        class: "small", "data-key": `clear ${d.node.name} ${deviceName(d)}`,
      }) : ""]));
}

function problemsPart() {
  const place = element("div");
  repeat(async () => {
    const { nodes } = await get("/api/v1/nodes");
    const { stragglers } = await get("/api/v1/cluster");
    redraw(place, title("Slow devices"), stragglers.length === 0
      ? note("No device is slower than the others of its type.")
      : table("Slow devices", [["node"], ["device"], ["job"], ["slower by", "number"]],
        stragglers.map((s) => [nodeLink(s.node), nodeLink(s.node, s.device), jobLink(s.job),
          `${number(s.slowness, 3)} ×`])),
    title("Devices out of use"), outOfUse(devicesOf(nodes)));
  });
  return [place];
}

const nodeState = (node) => !node.alive ? "lost" : node.draining ? "draining" : "alive";
const nodeNotes = (node) => [node.gone ? `gone ${node.gone}` : "", node.spot ? "spot" : "",
  node.checkpoint_problem ?? "",
  node.cut_from.length ? `cut from ${node.cut_from.join(", ")}` : ""].filter(Boolean).join("; ");

function nodeColumns() {
  const count = (state) => (node) =>
    node.devices.filter((device) => stateOf({ ...device, node }) === state).length;
  const counting = (name, state) => ({
    name, kind: "number", key: count(state), cell: (node) => String(count(state)(node)),
  });
  return [
    { name: "node", key: (n) => n.name, cell: (n) => nodeLink(n.name) },
    { name: "state", key: nodeState, cell: (n) => stateText(nodeState(n)) },
    { name: "devices", kind: "number", key: (n) => n.devices.length,
      cell: (n) => String(n.devices.length) },
    counting("busy", "busy"), counting("free", "free"), counting("suspect", "suspect"),
    { name: "rack", key: (n) => n.rack, cell: (n) => n.rack },
    { name: "note", kind: "wide", cell: nodeNotes },
    { name: "", cell: drainButton }];
}

function nodesPart() {
  const list = element("div"), order = { name: "node", down: false };
  let nodes = [];
  const search = element("input", { type: "search", oninput: () => draw() });
  const draw = () => redraw(list, sortedTable("Nodes", nodeColumns(),
    nodes.filter((node) => node.name.includes(search.value.trim())), order, draw));
  repeat(async () => {
    ({ nodes } = await get("/api/v1/nodes"));
    draw();
  });
  return [element("div", { class: "row" }, element("label", {}, "Search", search)), list];
}

function claimsPart() {
  const place = element("div");
  repeat(async () => {
    const { claims } = await get("/api/v1/claims");
    redraw(place, claims.length === 0 ? note("No other load claims devices.")
      : table("Claims", [["claim"], ["type"], ["devices", "number"], ["of", "number"]],
        claims.map((c) => [c.claim, c.type, String(c.devices), String(c.count)])));
  });
  return [place];
}

const PARTS = {
  map: ["Map", mapPart], time: ["Over time", timePart], problems: ["Problems", problemsPart],
  nodes: ["Nodes", nodesPart], claims: ["Claims", claimsPart],
};

export function clusterPage(part = "map") {
  const [name, make] = PARTS[part] ?? PARTS.map;
  main.replaceChildren(heading("Cluster"), tabs("Parts of the cluster",
    Object.entries(PARTS).map(([key, [text]]) => [text, `#/cluster/${key}`]), name), ...make());
}

// --- one node

// Which value of a point of the history a chart shows, and in which unit; see NodeHistory in
// openapi.json.
const HISTORY = [
  ["Computing, share of the time", 2, 1, { write: percent, log: false }],
  ["Held by a job or a claim, share of the time", 1, 1, { write: percent, log: false, step: true }],
  ["Memory of the worker, peak, MiB", 3, 1, {}],
  ["Sent to other workers, KiB per second", 4, 1024, {}],
];

const LINES_MAX = 8;

function historyCharts() {
  const charts = HISTORY.map(([name, , , options]) =>
    new Chart(name, { axis: "clock", from0: true, ...options }));
  const show = (devices) => charts.forEach((chart, i) => {
    const [, value, unit] = HISTORY[i];
    const known = devices.filter(({ points }) => points.some((p) => p[value] !== null));
    // What is not known is a gap of the line.
    chart.show(known.map(({ device, points }) => ({
      name: device, points: points.map((p) => [p[0], p[value] === null ? NaN : p[value] / unit]),
    })));
  });
  return { place: element("div", { class: "pictures two" }, ...charts.map((c) => c.figure)), show };
}

function nodeFacts(node) {
  return [cards([["State", stateText(nodeState(node))], ["Devices", String(node.devices.length)],
    node.rack ? ["Rack", node.rack] : null, node.spot ? ["Spot", "yes"] : null,
    node.gone ? ["Gone", node.gone] : null]),
  nodeNotes(node) ? note(nodeNotes(node)) : null,
  element("div", { class: "row" }, drainButton(node)),
  table("Devices", [["device"], ["state"], ["held by"], ["note", "wide"]],
    node.devices.map((device) => [nodeLink(node.name, deviceName(device)),
      stateText(stateOf({ ...device, node })), holder(device), device.suspect ?? ""]))];
}

export function nodePage(name, device) {
  const facts = element("div"), history = historyCharts(), more = element("p", { class: "note" });
  const list = element("a", { href: "#/cluster/nodes" }, "All nodes");
  const missing = (error) => showMissing(`There is no node ${name}`, list, error?.message ?? "");
  main.replaceChildren(heading(...(device ? [nodeLink(name), ` ${device}`] : [name])), facts,
    title("Over time"), more, history.place);
  repeat(async () => {
    const { nodes } = await get("/api/v1/nodes");
    const node = nodes.find((other) => other.name === name);
    if (!node) return missing();
    const found = device ? node.devices.filter((d) => deviceName(d) === device) : node.devices;
    if (found.length === 0) return missing();
    redraw(facts, nodeFacts({ ...node, devices: found }));
    const { devices } = await get(`/api/v1/nodes/${encodeURIComponent(name)}/history`);
    const shown = devices.filter((d) => !device || d.device === device);
    more.textContent = "The head notes it every 10 s since its start." + (shown.length > LINES_MAX
      ? ` The first ${LINES_MAX} of ${counted(shown.length, "device")} are shown.` : "");
    history.show(shown.slice(0, LINES_MAX));
  }, { onMissing: missing });
}
