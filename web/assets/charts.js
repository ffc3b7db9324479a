// The charts of the front page, drawn by uPlot, and the same numbers as tables. Where the broker was down there is a gap.

import { ask, clock, number, whileVisible } from "./service.js";

const CHARTS = {
  rates: [["in_per_second", "in", "--in"], ["out_per_second", "out", "--out"]],
  messages: [["messages", "held", "--in"]],
  connections: [["connections", "open", "--in"]],
  refusals: [["refusals_per_second", "refused", "--out"]],
  tenants: [["tenants", "tenants", "--in"]],
};
const ROWS = 24;
const HEIGHT = 190;
/** Seconds between two questions; a week's curve does not move in five seconds. */
const EVERY = { hour: 10, day: 60, week: 300 };

/** Draws into the figures below an element from now on. */
export async function start(root) {
  await Promise.all([load("script", { src: "/assets/vendor/uPlot.js" }), load("link", { rel: "stylesheet", href: "/assets/vendor/uPlot.min.css" })]);
  const charts = [...root.querySelectorAll("[data-chart]")].map((figure) => new Chart(figure));
  const state = root.querySelector("[data-history-state]");
  let asked = 0, shown = null;

  const wanted = () => root.querySelector("[name=window]:checked").value;
  const refresh = async (now) => {
    const name = wanted();
    if (!now && name === shown && performance.now() - asked < EVERY[name] * 1000) return;
    asked = performance.now();
    try {
      const history = await ask(`/api/history?window=${name}`);
      if (history.window !== wanted()) return;
      shown = name;
      root.classList.add("drawn");
      for (const chart of charts) chart.show(history);
      state.textContent = history.series.in_per_second.some((value) => value !== null) ? "" : "Nothing has been recorded in this window yet.";
    } catch {
      state.textContent = "The charts could not be updated.";
    }
  };
  root.addEventListener("change", () => refresh(true));
  whileVisible(5, () => refresh(false));
  new ResizeObserver(() => charts.forEach((chart) => chart.fit())).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.redraw()));
}

const load = (name, attributes) => new Promise((onload, onerror) => {
  document.head.append(Object.assign(document.createElement(name), attributes, { onload, onerror }));
});

class Chart {
  constructor(figure) {
    this.place = figure.querySelector("[data-plot]");
    this.details = figure.querySelector("details");
    this.table = figure.querySelector("[data-table]");
    this.series = CHARTS[figure.dataset.chart];
    this.details.addEventListener("toggle", () => this.tabulate());
  }

  show(history) {
    this.history = history;
    this.data = [history.time, ...this.series.map(([key]) => history.series[key])];
    if (this.plot) this.plot.setData(this.data);
    else this.redraw();
    this.tabulate();
  }

  redraw() {
    if (!this.data) return;
    this.plot?.destroy();
    const style = getComputedStyle(this.place);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: colour("--quiet"), font: `12px ${style.fontFamily}`, labelFont: `12px ${style.fontFamily}`,
      grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false },
    };
    this.plot = new uPlot({
      width: this.place.clientWidth, height: HEIGHT,
      legend: { live: true }, cursor: { y: false, points: { size: 7 } },
      scales: { y: { range: (_, low, high) => [0, Math.max(1, (high ?? 1) * 1.1)] } },
      axes: [
        { ...axis, grid: { show: false }, space: 70, values: (_, ticks, at, space, step) => ticks.map((time) => mark(time, step)) },
        { ...axis, size: 52, values: (_, ticks) => ticks.map(number) },
      ],
      series: [
        { label: "at", value: (_, time) => time == null ? "–" : moment(time, this.history.step_seconds) },
        ...this.series.map(([, label, name], index) => ({
          label, stroke: colour(name), width: 2, dash: index ? [6, 3] : undefined, spanGaps: false,
          fill: index === 0 ? `${colour(name)}1c` : undefined, points: { show: false },
          value: (_, value, __, index) => index == null ? "–" : value == null ? "no data" : number(value),
        })),
      ],
    }, this.data, this.place);
  }

  fit() {
    const width = this.place.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  /** The table is made when somebody opens it: newest first, each row the mean of what its time holds. */
  tabulate() {
    if (!this.details.open || !this.history) return;
    const { time, step_seconds: step } = this.history;
    const each = Math.max(1, Math.ceil(time.length / ROWS));
    const table = document.createElement("table");
    const caption = table.createCaption();
    caption.textContent = `Each row is the mean of ${each * step >= 3600 ? `${number(each * step / 3600)} h` : each * step >= 60 ? `${number(each * step / 60)} min` : `${each * step} s`} from the time it names.`;
    const head = table.createTHead().insertRow();
    for (const label of ["time", ...this.series.map(([, name]) => name)]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = label;
      head.append(cell);
    }
    const body = table.createTBody();
    for (let from = (Math.ceil(time.length / each) - 1) * each; from >= 0; from -= each) {
      const row = body.insertRow();
      const cell = document.createElement("th");
      cell.scope = "row";
      cell.textContent = moment(time[from], step);
      row.append(cell);
      for (const values of this.data.slice(1)) {
        const known = values.slice(from, from + each).filter((value) => value !== null);
        row.insertCell().textContent = known.length ? number(known.reduce((sum, value) => sum + value, 0) / known.length) : "no data";
      }
    }
    this.table.replaceChildren(table);
  }
}

/** A tick's text: days where ticks are days apart, else the time of day. */
const mark = (seconds, step) => new Date(seconds * 1000).toLocaleString([], step >= 86_400 ? { weekday: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit" });

function moment(seconds, step) {
  if (step < 60) return clock(seconds * 1000);
  const day = step >= 3600 ? { weekday: "short", day: "numeric", month: "short" } : {};
  return new Date(seconds * 1000).toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit" });
}
