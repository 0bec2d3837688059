// The charts of a job: its course, and which device trained when.
/* global Dygraph */
import { viewSignal } from "./api.js";
import { Chart, colour, durationTicks } from "./charts.js";
import { counted, duration, element, number } from "./dom.js";

export const CAUSES = {
  change: "changes of devices", link: "broken links", worker_lost: "lost workers",
  audit: "audits", suspended: "without devices",
};

// The size of a mini-batch is in the job file only.
const batchSize = (job) => Number(/^batch_size *= *([0-9]+)/m.exec(job.spec_toml ?? "")?.[1] ?? 1);
const samplesPerStep = (job) => job.max_p * batchSize(job);

// A function from a step to the time at which it was complete, by the progress that the head has
// noted ([[seconds, steps], ...]); null for steps before.
export function timeOfStep(progress) {
  return (step) => {
    const after = progress.findIndex(([, steps]) => steps >= step);
    if (after < 0 || (after === 0 && progress[0][1] > step)) return null;
    const [to, last] = progress[after], [from, first] = progress[Math.max(0, after - 1)];
    return last === first ? to : from + (to - from) * (step - first) / (last - first);
  };
}

// Points by step as points by time. Those whose time is not known are left out.
export function byTime(points, progress) {
  const time = timeOfStep(progress);
  return points.map(([step, ...values]) => [time(step), ...values]).filter(([x]) => x !== null);
}

export const lossPoints = (curve) => curve.points.filter((point) => point[2] !== null);

// The speed between two points of the progress.
export function speedPoints(progress, samples) {
  const points = [];
  for (let i = 1; i < progress.length; ++i) {
    const [from, before] = progress[i - 1], [to, after] = progress[i];
    if (to > from) points.push([to, (after - before) * samples / (to - from)]);
  }
  return points;
}

// The metrics of evaluations: {name: [[step, value], ...]}.
function metricPoints(evaluations) {
  const metrics = {};
  for (const { version, total: _total, metric: _metric, ...values } of evaluations)
    for (const [name, value] of Object.entries(values))
      if (typeof value === "number") (metrics[name] ??= []).push([version, value]);
  return metrics;
}

// A chart for each metric of evaluations.
export class MetricCharts {
  constructor() {
    this.charts = new Map();
    this.place = element("div", { class: "pictures" });
  }

  // `jobs` are [name, evaluations], a line each. One without a name has that of the metric.
  show(jobs) {
    const all = jobs.map(([name, evaluations]) => [name, metricPoints(evaluations)]);
    for (const metric of new Set(all.flatMap(([, metrics]) => Object.keys(metrics))))
      this.chartOf(metric).show(all.map(([name, metrics]) => ({
        name: name ?? metric, points: metrics[metric] ?? [],
      })));
  }

  chartOf(metric) {
    if (!this.charts.has(metric)) {
      const chart = new Chart(metric.replaceAll("_", " "), { log: false });
      this.charts.set(metric, chart);
      this.place.append(chart.figure);
    }
    return this.charts.get(metric);
  }
}

// Loss, speed and metrics of one job; all but the speed by step or by time.
export class CourseCharts {
  constructor() {
    const axes = { step: "step", time: "seconds" };
    this.loss = new Chart("Loss", { axes, band: true, onAxis: () => this.redraw() });
    this.speed = new Chart("Samples per second", { axis: "seconds", from0: true, step: true });
    this.metrics = new MetricCharts();
    this.place = element("div", {}, this.loss.figure, this.speed.figure, this.metrics.place);
  }

  show(job, curve, timeline) {
    Object.assign(this, { job, curve, timeline });
    this.redraw();
  }

  redraw() {
    if (!this.job) return;
    const { progress } = this.timeline;
    const by = (axis, points) => axis === "step" ? points : byTime(points, progress);
    this.loss.show([{ name: "loss", points: by(this.loss.axis, lossPoints(this.curve)) }]);
    this.speed.show([{
      name: "samples/s", points: speedPoints(progress, samplesPerStep(this.job)),
    }]);
    this.metrics.show([[null, this.job.evaluations]]);
  }
}

// --- devices over time

const ROW = 22, ROWS_MAX = 64;
const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const shortened = (text) => text.length > 20 ? `…${text.slice(-19)}` : text;

// Which device trained when: a row for each device, and the pauses between as bars over all rows.
// The axis and the zoom are those of dygraphs.
export class DeviceTimes {
  constructor() {
    this.plot = element("div", { class: "plot rows", role: "img" });
    this.caption = element("figcaption");
    this.under = element("p", { class: "note", "aria-live": "polite" });
    this.figure = element("figure", { class: "chart", hidden: true }, this.caption, this.plot,
      this.under);
    this.plot.addEventListener("mousemove", (event) => this.onMove(event));
    this.plot.addEventListener("mouseleave", () => { this.under.textContent = this.hint; });
    viewSignal().addEventListener("abort", () => this.end());
  }

  end() {
    this.graph?.destroy();
    this.graph = null;
  }

  show(spans) {
    if (!this.plot.isConnected) return;
    this.figure.hidden = spans.length === 0;
    if (spans.length === 0) return;
    this.spans = spans;
    const all = [...new Set(spans.flatMap((span) => span.devices))]
      .toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const devices = all.slice(0, ROWS_MAX);
    if (this.graph && devices.length !== this.devices.length) this.end();
    this.devices = devices;
    this.describe(all.length);
    const begin = spans[0].begin_seconds, last = spans.at(-1);
    const end = Math.max(last.begin_seconds + last.seconds, begin + 1e-3);
    const file = [[begin, 0], [end, 0]];
    if (this.graph) this.graph.updateOptions({ file });
    else this.make(file);
  }

  describe(count) {
    const pauses = this.spans.filter((span) => span.cause).length;
    const text = `${counted(this.spans.length, "span")} of training on ` +
      `${counted(count, "device")}, ${counted(pauses, "pause")}`;
    const shown = count > ROWS_MAX ? ` The first ${ROWS_MAX} devices are shown.` : "";
    this.caption.textContent = `${text}. A bar is a device that trained; red is a pause.${shown}`;
    this.plot.setAttribute("aria-label", text);
    this.figure.dataset.pauses = pauses;
    this.figure.dataset.spans = this.spans.length;
    this.hint = "Drag over a part to see it larger; press twice for the whole.";
    if (!this.under.textContent) this.under.textContent = this.hint;
  }

  make(file) {
    const count = this.devices.length;
    this.plot.dataset.rows = count;
    this.plot.style.height = `${count * ROW + 30}px`;
    const labels = () => this.devices.map((device, i) => ({
      v: count - i - 0.5, label: escaped(shortened(device)),
    }));
    this.graph = new Dygraph(this.plot, file, {
      labels: ["x", "none"], strokeWidth: 0, valueRange: [0, count], axisLabelFontSize: 12,
      gridLineColor: colour("--line"), axisLineColor: colour("--dim"),
      drawHighlightPointCallback: () => {}, xRangePad: 2,
      axes: {
        x: { ticker: durationTicks, axisLabelWidth: 88 },
        y: { ticker: labels, axisLabelWidth: 150, drawGrid: false },
      },
      underlayCallback: (canvas, area, graph) => this.draw(canvas, area, graph),
    });
  }

  draw(canvas, area, graph) {
    const trained = colour("--band"), paused = colour("--bad");
    const bar = (from, to, y, height, fill) => {
      const left = Math.max(area.x, graph.toDomXCoord(from));
      const right = Math.min(area.x + area.w, graph.toDomXCoord(to));
      if (right < area.x || left > area.x + area.w) return;
      canvas.fillStyle = fill;
      canvas.fillRect(left, y, Math.max(1, right - left), height);
    };
    const row = area.h / this.devices.length;
    for (const span of this.spans) {
      for (const device of span.devices) {
        const at = this.devices.indexOf(device);
        if (at >= 0) bar(span.begin_seconds, span.begin_seconds + span.seconds,
          area.y + at * row + 2, row - 4, trained);
      }
      if (span.cause)
        bar(span.begin_seconds - span.pause_seconds, span.begin_seconds, area.y, area.h, paused);
    }
  }

  onMove(event) {
    if (!this.graph) return;
    const [x, y] = this.graph.eventToDomCoords(event);
    const seconds = this.graph.toDataXCoord(x);
    const area = this.graph.getArea();
    const device = this.devices[Math.floor((y - area.y) / area.h * this.devices.length)];
    this.under.textContent = device && x >= area.x ? this.at(seconds, device) : this.hint;
  }

  at(seconds, device) {
    const span = this.spans.findLast((s) => s.begin_seconds - s.pause_seconds <= seconds);
    if (!span) return this.hint;
    if (seconds < span.begin_seconds)
      return `Pause of ${duration(span.pause_seconds)}: ${CAUSES[span.cause] ?? span.cause}`;
    if (!span.devices.includes(device)) return `${device}: not used after ${duration(seconds)}`;
    return `${device}: ${number(span.steps, 9)} steps from step ${span.first_step + 1} on, ` +
      duration(span.seconds);
  }
}
