// A map of the devices of a cluster: a square for each one, so that hundreds are seen at a glance.
import { element, jobLink, nodeAddress, nodeLink } from "./dom.js";

export const STATES = {
  busy: "busy", free: "free", aside: "set aside", suspect: "suspect", lost: "lost",
};

// The state of a device, which has its node as `node`.
export function stateOf(device) {
  if (!device.node.alive) return "lost";
  if (device.suspect && !device.suspect_until) return "suspect";
  if (device.job) return "busy";
  return device.suspect ? "aside" : "free";
}

export const deviceName = ({ type, index }) => `${type}#${index}`;
export const devicesOf = (nodes) =>
  nodes.flatMap((node) => node.devices.map((device) => ({ ...device, node })));

export function holder(device) {
  if (!device.job) return "";
  // Claims and jobs of other tenants are no jobs that can be shown.
  return /^(claim:|\()/.test(device.job) ? device.job : jobLink(device.job);
}

const JOB_COLOURS = 8;

export class DeviceMap {
  constructor() {
    this.colourBy = "state";
    this.nodes = [];
    this.at = null;
    this.about = element("p", { class: "note about-device", role: "status" });
    this.key = element("ul", { class: "legend" });
    this.grid = element("div", { class: "map", role: "group",
      "aria-label": "Devices; arrow keys go from one to the next",
      onkeydown: (event) => this.onKey(event), onfocusin: (event) => this.tell(event.target),
      onmouseover: (event) => this.tell(event.target) });
    const choice = element("select", { onchange: (event) => {
      this.colourBy = event.target.value;
      this.draw();
    } }, ...["state", "job"].map((name) => element("option", { value: name }, name)));
    this.place = element("div", {}, element("div", { class: "row" },
      element("label", {}, "Colour by", choice), this.key), this.about, this.grid);
    this.hint = "A square is a device. Point at one, or go there by the arrow keys.";
    this.about.textContent = this.hint;
  }

  show(nodes) {
    const text = JSON.stringify(nodes);
    if (text === this.text) return;
    Object.assign(this, { nodes, text });
    this.draw();
  }

  draw() {
    const all = devicesOf(this.nodes);
    this.devices = new Map(all.map((d) => [`${d.node.name} ${deviceName(d)}`, d]));
    if (!this.devices.has(this.at)) this.at = [...this.devices.keys()][0] ?? null;
    const jobs = [...new Set(all.map((d) => d.job).filter(Boolean))].toSorted();
    const focused = this.grid.contains(document.activeElement);
    this.grid.replaceChildren(...this.nodes.map((node) => this.nodeBox(node, jobs)));
    this.drawKey(all, jobs);
    if (focused) this.square(this.at)?.focus({ preventScroll: true });
  }

  nodeBox(node, jobs) {
    return element("div", { class: "map-node" },
      element("span", { class: "map-name" }, nodeLink(node.name)),
      element("span", { class: "squares" }, ...node.devices.map((device) =>
        this.squareOf({ ...device, node }, jobs))));
  }

  // Only one square is reached by Tab; the arrow keys lead to the others.
  squareOf(device, jobs) {
    const key = `${device.node.name} ${deviceName(device)}`, state = stateOf(device);
    const byJob = this.colourBy === "job" && state === "busy";
    const kind = byJob ? `line${jobs.indexOf(device.job) % JOB_COLOURS}` : "";
    return element("a", {
      href: nodeAddress(device.node.name, deviceName(device)),
      class: `square ${state} ${kind}`, "data-device": key, tabindex: key === this.at ? "0" : "-1",
      "aria-label": `${key}: ${STATES[state]}${device.job ? `, ${device.job}` : ""}`,
    });
  }

  square(key) {
    return [...this.grid.querySelectorAll(".square")].find((s) => s.dataset.device === key);
  }

  drawKey(all, jobs) {
    const entry = (kind, text) => element("li", {},
      element("i", { class: `square ${kind}` }), ` ${text}`);
    const count = (test) => all.filter(test).length;
    const states = Object.entries(STATES)
      .map(([state, text]) => [state, text, count((d) => stateOf(d) === state)])
      .filter(([state, , n]) => n > 0 || state === "busy" || state === "free");
    const shown = this.colourBy === "state" ? states.map(([state, text, n]) =>
      entry(state, `${text} ${n}`))
      : jobs.slice(0, JOB_COLOURS).map((job, i) =>
        entry(`busy line${i}`, `${job} ${count((d) => d.job === job)}`));
    this.key.replaceChildren(...shown);
    if (this.colourBy === "job" && jobs.length > JOB_COLOURS)
      this.key.append(element("li", {}, `${jobs.length - JOB_COLOURS} more, in the same colours`));
  }

  tell(target) {
    const device = this.devices.get(target.dataset?.device);
    if (!device) return;
    const why = device.suspect ? `: ${device.suspect}` : "";
    this.about.replaceChildren(`${device.node.name} ${deviceName(device)}: `,
      `${STATES[stateOf(device)]}${why}`, device.job ? ", " : "", holder(device));
  }

  onKey(event) {
    const hop = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -8, ArrowDown: 8 }[event.key];
    const squares = [...this.grid.querySelectorAll(".square")];
    const at = squares.indexOf(document.activeElement);
    if (at < 0 || (!hop && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    const to = event.key === "Home" ? 0 : event.key === "End" ? squares.length - 1
      : Math.min(squares.length - 1, Math.max(0, at + hop));
    squares[at].tabIndex = -1;
    squares[to].tabIndex = 0;
    this.at = squares[to].dataset.device;
    squares[to].focus();
  }
}
