// Charts, drawn by dygraphs: ticks, values under the cursor, zoom and a logarithmic axis.
/* global Dygraph */
import { viewSignal } from "./api.js";
import { button, clock, duration, element, number } from "./dom.js";

// The library's own legend writes HTML with styles, which the page does not allow.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

// A line is told from the others by its colour and by its pattern.
const PATTERNS = [null, [7, 3], [2, 3], [10, 3, 2, 3]];
const COLOURS = 8;

const dark = matchMedia("(prefers-color-scheme: dark)");
export const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function theme(count) {
  return {
    colors: Array.from({ length: count }, (_, i) => colour(`--line${i % COLOURS}`)),
    gridLineColor: colour("--line"), axisLineColor: colour("--dim"),
  };
}

// --- axes

const TIME_STEPS = [0.001, 0.01, 0.1, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600,
  43200, 86400, 172800, 604800];

// Ticks of a time in seconds: round numbers of seconds, minutes, hours and days.
export function durationTicks(low, high, pixels) {
  const most = Math.max(2, pixels / 85);
  const step = TIME_STEPS.find((s) => (high - low) / s <= most) ?? (high - low) / most;
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; ++i)
    ticks.push({ v: i * step, label: duration(Math.abs(i * step)) });
  return ticks;
}

// What the horizontal axis can be: how a value is written, and where its ticks are.
const AXES = {
  step: { write: (x) => `step ${number(x, 9)}`, options: { axisLabelWidth: 70 } },
  seconds: { write: duration, options: { ticker: durationTicks, axisLabelWidth: 88 } },
  clock: { write: (x) => clock(+x), options: { axisLabelWidth: 75 } },
};

// --- one chart

// lines: [{name, points}, ...]. A point is [x, y]; with `band` it is [x, lowest, y, highest].
// All lines in one table, as dygraphs wants it: x, and a value for each line or null.
function merged(lines, band, asDate) {
  const rows = new Map();
  lines.forEach((line, i) => {
    for (const [x, ...values] of line.points) {
      if (!rows.has(x)) rows.set(x, Array(lines.length).fill(null));
      rows.get(x)[i] = band ? (values[1] === null ? null : values) : values[0];
    }
  });
  return [...rows].toSorted((a, b) => a[0] - b[0])
    .map(([x, values]) => [asDate ? new Date(x) : x, ...values]);
}

export class Chart {
  // `axis` is one of AXES; `write` writes a value of y; `axes` ({name: axis}) are offered for x.
  constructor(title, { axis = "step", axes = null, write = (y) => number(y, 5), log = true,
    band = false, from0 = false, step = false, onAxis = () => {} } = {}) {
    Object.assign(this, { name: title, axis, write, band, from0, step });
    this.log = false;
    this.lines = [];
    this.graph = null;
    this.legend = element("ul", { class: "legend", "aria-live": "polite" });
    this.plot = element("div", { class: "plot", role: "group", tabindex: "0", "aria-label": title,
      onkeydown: (event) => this.onKey(event) });
    this.empty = element("p", { class: "note" }, "It is being read.");
    this.whole = button("Whole", () => this.showAll(), { class: "small", disabled: true });
    this.tools = element("div", { class: "tools" }, axes ? this.axisChoice(axes, onAxis) : null,
      log ? this.logButton() : null, this.whole);
    this.figure = element("figure", { class: "chart" },
      element("div", { class: "row" }, element("figcaption", {}, title), this.tools),
      this.legend, this.plot, this.empty);
    this.hide(true);
    this.watch();
  }

  logButton() {
    const made = button("Logarithm", () => {
      this.log = !this.log;
      made.setAttribute("aria-pressed", String(this.log));
      this.graph?.updateOptions({ logscale: this.log, ...this.range() });
    }, { class: "small", "aria-pressed": "false" });
    return made;
  }

  axisChoice(axes, onAxis) {
    return element("label", { class: "inline" }, "by ", element("select", {
      class: "small", onchange: (event) => {
        this.axis = event.target.value;
        this.end();
        onAxis(this.axis);
      },
    }, ...Object.entries(axes).map(([name, axis]) =>
      element("option", { value: axis, selected: axis === this.axis }, name))));
  }

  // Colours follow the theme, and the graph ends with its view.
  watch() {
    const recolour = () => this.graph?.updateOptions(theme(this.lines.length));
    dark.addEventListener("change", recolour, { signal: viewSignal() });
    viewSignal().addEventListener("abort", () => this.end());
  }

  end() {
    this.graph?.destroy();
    this.graph = null;
    this.whole.disabled = true;
  }

  hide(empty) {
    this.empty.hidden = !empty;
    this.plot.hidden = this.legend.hidden = this.tools.hidden = empty;
  }

  range() {
    return { includeZero: this.from0 && !this.log };
  }

  // Draws these lines. What is zoomed stays so.
  show(lines) {
    // The last answer may come after the view was left.
    if (!this.plot.isConnected) return;
    const known = lines.filter((line) => line.points.length > 0);
    const rows = merged(known, this.band, this.axis === "clock");
    const names = known.map((line) => line.name);
    if (this.graph && String(names) !== String(this.lines.map((line) => line.name))) this.end();
    this.lines = known;
    this.hide(rows.length < 2);
    this.empty.textContent = "There are no values yet.";
    this.figure.dataset.points = rows.length;
    if (rows.length < 2) return this.end();
    this.plot.setAttribute("aria-label", `${this.name}: ${this.summary()}. ` +
      "Arrow keys move the cursor, plus and minus zoom, 0 shows the whole.");
    if (this.graph) this.graph.updateOptions({ file: rows });
    else this.make(rows, names);
    if (this.graph.getSelection() < 0) this.showValues(null);
  }

  // Where each line begins and ends, for those who do not see it.
  summary() {
    const { write } = AXES[this.axis];
    const at = (point) => `${this.write(point[this.band ? 2 : 1])} at ${write(point[0])}`;
    return this.lines.map(({ name, points }) => {
      const known = points.filter((p) => Number.isFinite(p[this.band ? 2 : 1]));
      return known.length ? `${name} from ${at(known[0])} to ${at(known.at(-1))}` : `${name}: none`;
    }).join("; ");
  }

  make(rows, names) {
    const { options } = AXES[this.axis];
    this.graph = new Dygraph(this.plot, rows, {
      labels: ["x", ...names.map((_, i) => `line ${i}`)], customBars: this.band,
      connectSeparatedPoints: true, stepPlot: this.step, strokeWidth: 1.75, fillAlpha: 0.2,
      highlightCircleSize: 4, axisLabelFontSize: 12, logscale: this.log, xRangePad: 6,
      labelsUTC: false, ...this.range(), ...theme(names.length),
      axes: {
        x: { drawGrid: true, pixelsPerLabel: 65, ...options },
        y: { axisLabelWidth: 62, axisLabelFormatter: (y) => this.write(y) },
      },
      series: Object.fromEntries(names.map((_, i) => [`line ${i}`, {
        strokePattern: PATTERNS[i % PATTERNS.length],
      }])),
      highlightCallback: (_event, x, _points, row) => this.showValues(x, row),
      unhighlightCallback: () => this.showValues(null),
      zoomCallback: () => this.onZoom(),
      drawCallback: () => this.onZoom(),
    });
  }

  onZoom() {
    this.whole.disabled = !this.graph?.isZoomed();
  }

  showAll() {
    this.graph?.resetZoom();
    this.onZoom();
  }

  // The legend: every line with its value at x, or with its newest one.
  showValues(x, row) {
    const value = (line, i) => {
      if (row === undefined) return line.points.at(-1)[this.band ? 2 : 1];
      const found = this.graph.getValue(row, i + 1);
      return Array.isArray(found) ? found[1] : found;
    };
    const swatch = (i) => element("i", { class: `swatch line${i % COLOURS} pattern${i % 4}` });
    this.legend.replaceChildren(
      ...this.lines.map((line, i) => {
        const y = value(line, i);
        return element("li", {}, swatch(i), `${line.name} `,
          element("b", {}, y === null || Number.isNaN(y) ? "–" : this.write(y)));
      }),
      element("li", { class: "at" }, x === null ? "newest" : AXES[this.axis].write(x)));
  }

  // --- keys

  onKey(event) {
    const act = {
      ArrowLeft: () => this.move(-1), ArrowRight: () => this.move(1),
      "+": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.showAll(),
    }[event.key];
    if (!act || !this.graph || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  // Moves the cursor by about a fiftieth of what is shown.
  move(direction) {
    const [low, high] = this.graph.xAxisRange();
    const shown = [];
    for (let row = 0; row < this.graph.numRows(); ++row) {
      const x = +this.graph.getValue(row, 0);
      if (x >= low && x <= high) shown.push(row);
    }
    const at = shown.indexOf(this.graph.getSelection());
    const hop = Math.max(1, Math.round(shown.length / 50));
    const next = at < 0 ? (direction > 0 ? 0 : shown.length - 1) : at + direction * hop;
    const row = shown[Math.min(shown.length - 1, Math.max(0, next))];
    if (row === undefined) return;
    this.graph.setSelection(row);
    this.showValues(this.graph.getValue(row, 0), row);
  }

  // Zooms around the cursor, or the middle.
  zoom(factor) {
    const [low, high] = this.graph.xAxisRange(), [first, last] = this.graph.xAxisExtremes();
    const row = this.graph.getSelection();
    const middle = row >= 0 ? +this.graph.getValue(row, 0) : (low + high) / 2;
    const window = [middle - factor * (middle - low), middle + factor * (high - middle)];
    this.graph.updateOptions({
      dateWindow: [Math.max(first, window[0]), Math.min(last, window[1])],
    });
  }
}
