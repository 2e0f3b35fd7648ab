// Draws the report's charts from their specifications, and gives every table its CSV button.
// Needs no network: all data is in the JSON embedded in the page. Never builds markup from data:
// names go through textContent, or through echarts as text.
"use strict";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const THOUSANDS = ["", "k", "M", "G", "T"];
const printing = matchMedia("print");

/** Reads an embedded JSON block. */
function embedded(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** A figure with its unit; `isShort` for axes, which have little space. */
function format(value, unit, isShort) {
  if (value === null || value === undefined || value === "-") return "unknown";
  if (unit === "text" || typeof value === "string") return String(value);
  if (unit === "share") return trimmed(value * 100, isShort ? 1 : 2) + " %";
  if (unit === "bytes") return scaled(value, 1024, UNITS, "\u00a0");
  if (unit === "seconds" && value > 0 && value < 1)
    return value < 1e-6 ? trimmed(value * 1e9, 0) + " ns" : value < 1e-3 ? trimmed(value * 1e6, 1) + " us" : trimmed(value * 1e3, 1) + " ms";
  if (unit === "seconds") return value >= 600 ? trimmed(value / 60, 1) + " min" : trimmed(value, isShort ? 1 : 3) + " s";
  if (unit === "ratio" && isShort && Math.abs(value) >= 1e4) return scaled(value, 1000, THOUSANDS, "");
  if (unit === "ratio") return Number(value.toPrecision(isShort ? 2 : 3)).toString();
  if (isShort) return scaled(value, 1000, THOUSANDS, "");
  return Math.round(value).toLocaleString("en-US");
}

function trimmed(value, digits) {
  return Number(value.toFixed(digits)).toString();
}

function scaled(value, base, units, gap) {
  let index = 0;
  let rest = value;
  while (Math.abs(rest) >= base && index < units.length - 1) {
    rest /= base;
    index += 1;
  }
  return trimmed(rest, Math.abs(rest) < 10 ? 2 : 1) + (units[index] ? gap + units[index] : "");
}

/** The colours of the current theme, from the style sheet. */
function theme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    ink: get("--ink"),
    soft: get("--ink-soft"),
    line: get("--line"),
    ground: get("--ground"),
    bad: get("--bad"),
    font: get("--sans"),
    series: Array.from({ length: 8 }, (_, index) => get(`--series-${index}`)),
  };
}

/** A colour between two of the theme, both as #rrggbb or #rgb; `share` is that of the second. */
function mixed(first, second, share) {
  const parts = (color) => {
    const digits = color.length === 4 ? color.replace(/[^#]/g, "$&$&") : color;
    return [1, 3, 5].map((at) => parseInt(digits.slice(at, at + 2), 16));
  };
  const [from, to] = [parts(first), parts(second)];
  return `rgb(${from.map((value, at) => Math.round(value + share * (to[at] - value))).join(",")})`;
}

/** Colour, symbol and dash of a series; references are grey, series of the right axis black. */
function look(series, styles, colors) {
  if (series.shade !== null) return { color: mixed(colors.ground, colors.series[0], series.shade), symbol: "rect", dash: [], width: 0 };
  if (series.is_moment) return { color: colors.bad, symbol: "rect", dash: [2, 2], width: 1.5 };
  if (series.is_right) return { color: series.is_reference ? colors.soft : colors.ink, symbol: "rect", dash: series.is_reference ? [3, 3] : [], width: 1.5 };
  if (series.is_reference) return { color: colors.soft, symbol: "rect", dash: [3, 4], width: 1.5 };
  const style = styles[series.name];
  return { color: colors.series[style.color], symbol: style.symbol, dash: style.dash, width: 2 };
}

/** The distance of marks for a span of bytes: a power of two. */
function byteInterval(span) {
  return 2 ** Math.ceil(Math.log2(span / 5));
}

/** Round marks on a linear axis of bytes: their distance, a power of two, and the end of the axis. */
function byteMarks(series, side, isStacked) {
  const valuesOf = (some) => some.map(({ points }) => points.map((point) => point[side] || 0));
  const stacked = valuesOf(series.filter((line) => isStacked && !line.is_line));
  const sums = stacked.length ? stacked[0].map((_, index) => stacked.reduce((sum, values) => sum + values[index], 0)) : [];
  const others = valuesOf(series.filter((line) => !isStacked || line.is_line)).flat();
  const highest = [...sums, ...others].reduce((high, value) => Math.max(high, value), 1);
  const interval = byteInterval(highest);
  return { interval, max: interval * Math.ceil(highest / interval) };
}

/** The first and last value on a side, which are the ends of an x axis. */
function ends(series, side) {
  const values = series.flatMap(({ points }) => points.map((point) => point[side])).filter((value) => typeof value === "number");
  return values.length ? { min: Math.min(...values), max: Math.max(...values) } : {};
}

/** Marks at the ends of an axis, and at round values between that leave space for their labels. */
function roundMarks({ min, max, interval }) {
  const marks = [min];
  for (let value = interval * Math.ceil(min / interval); value < max; value += interval)
    if (value - min > interval / 2 && max - value > interval / 4) marks.push(value);
  return [...marks, max];
}

const TIME_UNITS = [[1, "s"], [60, "min"], [3600, "h"]];
const ROUND_TIMES = [1, 2, 5, 10, 15, 30];
const TIME_MARKS = 6;

/** Round marks on a linear axis of seconds over a span: their distance and their format. */
function timeMarks(span) {
  const [seconds, name] = TIME_UNITS.filter(([length]) => length === 1 || span >= 10 * length).at(-1);
  const wanted = span / seconds / TIME_MARKS;
  const round = ROUND_TIMES.find((time) => time >= wanted);
  const decade = 10 ** Math.floor(Math.log10(wanted));
  const interval = wanted < 1 || !round ? decade * [1, 2, 5, 10].find((step) => step * decade >= wanted) : round;
  const digits = Math.max(0, 1 - Math.floor(Math.log10(interval)));
  return { interval: interval * seconds, formatter: (value) => `${trimmed(value / seconds, digits)} ${name}` };
}

/** Labels of the visible part of a linear axis of bytes or seconds: round, and at its ends. */
function roundLabels(spec, from, to) {
  if (spec.scale !== "linear" || !(to > from)) return {};
  if (spec.unit === "seconds") {
    const { interval, formatter } = timeMarks(to - from);
    return { customValues: roundMarks({ min: from, max: to, interval }), formatter };
  }
  if (spec.unit !== "bytes") return {};
  return { customValues: roundMarks({ min: from, max: to, interval: byteInterval(to - from) }) };
}

/** Ends of a logarithmic axis: the powers of its base around the values. */
function logMarks(series, side, base) {
  const values = series.flatMap(({ points }) => points.map((point) => point[side])).filter((value) => value > 0);
  if (values.length === 0) return {};
  const exponent = (value) => Math.log(value) / Math.log(base);
  const low = Math.floor(exponent(Math.min(...values)) + 1e-9);
  return { min: base ** low, max: base ** Math.max(low + 1, Math.ceil(exponent(Math.max(...values)) - 1e-9)) };
}

const pen = document.createElement("canvas").getContext("2d");
const LINE_HEIGHT = 15;
const ROTATED_MAX = 150;

/**
 * How categories are named: each within its share of the chart, on as many lines as it takes; at a
 * slant where a word is too long for that. `depth` is how far below the axis they reach.
 */
function categoryLabels(shown, colors, chartWidth) {
  const names = Array.from(new Set(shown.flatMap(({ points }) => points.map((point) => String(point[0])))));
  const width = Math.floor((chartWidth - 50) / names.length) - 8;
  pen.font = `12px ${colors.font}`;
  const measured = (text) => Math.ceil(pen.measureText(text).width);
  const words = names.flatMap((name) => name.split(" "));
  if (Math.max(...words.map(measured)) > width) {
    const longest = Math.min(ROTATED_MAX, Math.max(...names.map(measured)));
    const shownAll = width >= LINE_HEIGHT / 2 ? { interval: 0 } : { hideOverlap: true };
    // The chart keeps this width free beside itself, also for shorter names.
    const slanted = { rotate: 45, width: Math.min(ROTATED_MAX, longest + LINE_HEIGHT), overflow: "truncate" };
    return { ...slanted, ...shownAll, depth: Math.round(longest * Math.SQRT1_2) + LINE_HEIGHT };
  }
  const lines = Math.max(...names.map((name) => linesOf(name, width, measured)));
  return { width, overflow: "break", interval: 0, depth: lines * LINE_HEIGHT };
}

/** The lines that words fill. */
function linesOf(name, width, measured) {
  let lines = 1;
  let line = "";
  for (const word of name.split(" ")) {
    const longer = line ? `${line} ${word}` : word;
    if (measured(longer) > width) lines += 1;
    line = measured(longer) > width ? word : longer;
  }
  return lines;
}

function axis(spec, shown, isStacked, colors, isX, chartWidth) {
  const isNarrow = chartWidth < 400;
  const isCategory = spec.scale === "category";
  const isWholeShare = spec.unit === "share" && spec.high === 1;
  const isLinearBytes = spec.unit === "bytes" && spec.scale === "linear";
  const logBase = spec.unit === "bytes" ? 16 : 10;
  const side = isX ? 0 : 1;
  const { depth, ...labels } = isCategory ? categoryLabels(shown, colors, chartWidth) : { depth: LINE_HEIGHT, hideOverlap: true };
  const marks = isLinearBytes
    ? byteMarks(shown, side, isStacked && !isX)
    : spec.scale === "log" && !isX
      ? logMarks(shown, side, logBase)
      : {};
  // An x axis begins and ends with its data; a y axis begins at 0, so that heights compare.
  if (isX && !isCategory) Object.assign(marks, ends(shown, side));
  const [from, to] = [spec.low === null ? marks.min : spec.low, spec.high === null ? marks.max : spec.high];
  const marksOf = { formatter: (value) => format(value, spec.unit, true), ...(isX ? roundLabels(spec, from, to) : {}) };
  const namesOf = { customValues: spec.names.map((_, value) => value), formatter: (value) => spec.names[value] };
  return {
    type: isCategory ? "category" : spec.scale === "log" ? "log" : "value",
    logBase,
    interval: isWholeShare ? (isX && isNarrow ? 0.25 : 0.2) : marks.interval,
    name: spec.label,
    nameLocation: isX ? "middle" : "end",
    nameGap: isX ? LINE_HEIGHT + depth : 14,
    nameTextStyle: { color: colors.soft, fontSize: 12, align: isX ? "center" : "left", padding: isX ? 0 : [0, 0, 0, -20] },
    min: from,
    max: to,
    axisLine: { show: isX, onZero: false, lineStyle: { color: colors.line } },
    axisTick: { show: false },
    splitNumber: isX && isNarrow ? 3 : 5,
    splitLine: { show: !isX, lineStyle: { color: colors.line } },
    axisLabel: {
      color: colors.soft,
      fontSize: 12,
      lineHeight: LINE_HEIGHT,
      ...labels,
      ...(spec.names.length ? namesOf : marksOf),
    },
    scale: spec.scale === "log",
  };
}

const NEAR = 0.01;

/** The labels of the marks near an x. */
function nearMarks(spec, shown, x) {
  const { min, max } = ends(shown, 0);
  const marks = shown.filter((series) => series.is_moment);
  const isNear = (point) => Math.abs(point[0] - x) <= NEAR * (max - min);
  return marks.flatMap((series) =>
    series.points.flatMap((point, at) => (isNear(point) ? [`${format(point[0], spec.x.unit)}: ${series.labels[at]}`] : [])),
  );
}

/** A value on an axis: its name, or the figure with its unit. */
function nameOn(spec, value) {
  return spec.names.length ? spec.names[value] : format(value, spec.unit);
}

/** The tooltip, built as nodes, so that names are never parsed as markup. */
function tooltip(spec, shown) {
  return (given) => {
    const rows = Array.isArray(given) ? given : [given];
    const box = document.createElement("div");
    if (rows.length === 0) return box;
    const head = document.createElement("div");
    head.className = "tip-head";
    const first = rows[0];
    head.textContent = spec.kind === "scatter" ? first.seriesName : format(first.value[0], spec.x.unit, false);
    box.append(head);
    const unitOf = (row) => (spec.y_right && shown[row.seriesIndex].is_right ? spec.y_right.unit : spec.y.unit);
    for (const text of spec.kind === "scatter" ? [] : nearMarks(spec, shown, first.value[0])) {
      const line = document.createElement("div");
      line.append(text);
      box.append(line);
    }
    for (const row of rows) {
      const label = row.data && row.data.label_text;
      const parts = spec.kind === "scatter"
        ? [label, `${spec.x.label}: ${format(row.value[0], spec.x.unit)}`, `${spec.y.label}: ${nameOn(spec.y, row.value[1])}`]
        : [spec.y.names.length ? row.seriesName : `${row.seriesName}: ${format(row.value[1], unitOf(row))}`, label];
      for (const part of parts.filter(Boolean)) {
        const line = document.createElement("div");
        const dot = document.createElement("span");
        dot.className = "tip-dot";
        dot.style.background = row.color;
        line.append(dot, part);
        box.append(line);
      }
    }
    return box;
  };
}

/** The kind of a series: that of its chart, unless it is a line over bars or marks. */
function kindOf(series, spec) {
  return series.is_line || series.is_moment ? "line" : spec.kind;
}

/** Whether a series is a stacked area. */
function isArea(series, spec) {
  return spec.is_stacked && spec.kind === "line" && !series.is_line && !series.is_moment;
}

/** Marks across the chart, one at each x. */
function marksAcross(series, { color, dash, width }) {
  return {
    type: "line",
    name: series.name,
    data: [],
    color,
    markLine: {
      symbol: "none",
      silent: true,
      animation: false,
      label: { show: false },
      lineStyle: { color, width, type: dash },
      data: series.points.map((point) => ({ xAxis: point[0] })),
    },
  };
}

/** Points of a scatter chart beyond which they are drawn smaller. */
const CROWDED = 200;

function drawn(series, spec, styles, colors) {
  const { color, symbol, dash, width } = look(series, styles, colors);
  if (series.is_moment) return marksAcross(series, { color, dash, width });
  const isDense = series.points.length > 24;
  const isFilled = isArea(series, spec);
  return {
    type: kindOf(series, spec),
    name: series.name,
    data: series.points.map((point, index) => ({ value: point, label_text: series.labels[index] })),
    color,
    symbol,
    symbolSize: spec.kind !== "scatter" ? 7 : series.points.length > CROWDED ? 5 : 10,
    showSymbol: !isDense && !series.is_reference && !series.is_right && !isFilled,
    stack: spec.is_stacked && !series.is_line ? "all" : undefined,
    step: spec.is_stepped ? "end" : undefined,
    areaStyle: isFilled ? { color, opacity: 0.8 } : undefined,
    yAxisIndex: series.is_right ? 1 : 0,
    barMaxWidth: 44,
    lineStyle: { color, width: isFilled ? 0 : width, type: dash.length && !isFilled ? dash : "solid" },
    itemStyle: series.shade !== null ? { color, opacity: 1 } : { color, borderColor: colors.ground, borderWidth: spec.kind === "bar" ? 1 : 0.5 },
    emphasis: { focus: "series" },
  };
}

/** The y axis, and the right axis if there is one. */
function yAxes(spec, shown, colors, chartWidth) {
  const measured = (isRight) => shown.filter((series) => !series.is_moment && series.is_right === isRight);
  const left = axis(spec.y, measured(false), spec.is_stacked, colors, false, chartWidth);
  if (!spec.y_right) return left;
  const right = axis(spec.y_right, measured(true), false, colors, false, chartWidth);
  const name = { ...right.nameTextStyle, align: "right", padding: 0 };
  return [left, { ...right, position: "right", splitLine: { show: false }, nameTextStyle: name }];
}

/** The options of echarts for one chart in its current state. */
function options(spec, styles, view, off, chartWidth) {
  const colors = theme();
  const shown = spec.views[Math.min(view, spec.views.length - 1)].series;
  const canZoom = spec.x.scale !== "category" && shown.some((series) => series.points.length > 5);
  return {
    animation: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    animationDuration: 250,
    backgroundColor: "transparent",
    textStyle: { color: colors.ink, fontFamily: colors.font },
    aria: { enabled: true, label: { description: `${spec.title}. The table below holds the same figures.` } },
    grid: { left: 8, right: 20, top: 34, bottom: canZoom ? 58 : 34, containLabel: true },
    legend: { show: false, selected: Object.fromEntries(shown.map((series) => [series.name, !off.has(series.name)])) },
    tooltip: {
      trigger: spec.kind === "scatter" ? "item" : "axis",
      confine: true,
      backgroundColor: colors.ground,
      borderColor: colors.line,
      textStyle: { color: colors.ink, fontSize: 13, fontFamily: colors.font },
      axisPointer: { type: spec.kind === "bar" ? "shadow" : "line", lineStyle: { color: colors.soft } },
      formatter: tooltip(spec, shown),
    },
    xAxis: axis(spec.x, shown, spec.is_stacked, colors, true, chartWidth),
    yAxis: yAxes(spec, shown, colors, chartWidth),
    dataZoom: canZoom
      ? [
          {
            type: "slider",
            filterMode: spec.is_stepped ? "none" : "filter",
            show: !printing.matches,
            height: 4,
            bottom: 8,
            borderColor: "transparent",
            backgroundColor: colors.line,
            fillerColor: colors.line,
            handleIcon: "circle",
            handleSize: 12,
            handleStyle: { color: colors.ground, borderColor: colors.soft, borderWidth: 1.5 },
            moveHandleSize: 0,
            showDataShadow: false,
            brushSelect: false,
            labelFormatter: (value) => format(value, spec.x.unit, true),
            textStyle: { color: colors.soft, fontSize: 11 },
          },
        ]
      : [],
    series: shown.map((series) => drawn(series, spec, styles, colors)),
  };
}

/** Charts that share legend, view, zoom and pointer. */
class Group {
  constructor(element) {
    this.off = new Set();
    this.view = 0;
    this.styles = embedded(element.dataset.styles);
    this.charts = Array.from(element.querySelectorAll(".chart"), (node) => ({
      node,
      spec: embedded(`chart-${node.id}`),
      chart: echarts.init(node, null, { renderer: "svg" }),
    }));
    for (const drawn of this.charts)
      drawn.chart.on("datazoom", () => {
        this.relabel(drawn);
        this.fit(drawn);
      });
    if (this.charts.length > 1) echarts.connect(this.charts.map(({ chart }) => chart));
    this.legend = element.querySelector(".legend");
    const select = element.querySelector("select");
    if (select) select.addEventListener("change", () => this.show(Number(select.value)));
    this.show(0);
  }

  show(view) {
    this.view = view;
    this.draw();
    this.drawLegend();
  }

  draw() {
    for (const drawn of this.charts) {
      const { chart, node, spec } = drawn;
      chart.setOption(options(spec, this.styles, this.view, this.off, node.clientWidth), true);
      this.fit(drawn);
    }
  }

  /** The cells of a map fill the space between their neighbours, also when zoomed. */
  fit({ chart, spec }) {
    if (spec.cell === null) return;
    const corners = [[0, 0], spec.cell].map((corner) => chart.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, corner));
    const symbolSize = [0, 1].map((side) => Math.abs(corners[1][side] - corners[0][side]) + 0.5);
    chart.setOption({ series: chart.getOption().series.map(() => ({ symbolSize })) });
  }

  /** Round labels for the zoomed part of the axis. */
  relabel({ chart, spec }) {
    const [zoom] = chart.getOption().dataZoom;
    const labels = roundLabels(spec.x, zoom.startValue, zoom.endValue);
    if (labels.customValues) chart.setOption({ xAxis: { axisLabel: labels } });
  }

  toggle(button, name) {
    if (this.off.has(name)) this.off.delete(name);
    else this.off.add(name);
    button.setAttribute("aria-pressed", String(!this.off.has(name)));
    this.draw();
  }

  /** A button per series: works with the keyboard, wraps on a phone, prints. */
  drawLegend() {
    const colors = theme();
    const series = new Map();
    for (const { spec } of this.charts)
      for (const line of spec.views[Math.min(this.view, spec.views.length - 1)].series) series.set(line.name, line);
    this.legend.replaceChildren(
      ...Array.from(series.values(), (line) => {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", String(!this.off.has(line.name)));
        button.title = "Switch this series on or off";
        const isFilled = line.shade !== null || isArea(line, this.charts[0].spec);
        const kind = isFilled ? "bar" : kindOf(line, this.charts[0].spec);
        button.append(swatch(line, look(line, this.styles, colors), kind), line.name);
        button.addEventListener("click", () => this.toggle(button, line.name));
        return button;
      }),
    );
  }

  resize() {
    for (const drawn of this.charts) {
      drawn.chart.resize();
      this.fit(drawn);
    }
  }
}

const MARKS = {
  circle: ["circle", { cx: 14, cy: 6, r: 3.5 }],
  rect: ["rect", { x: 10.5, y: 2.5, width: 7, height: 7 }],
  triangle: ["path", { d: "M14 1.5 L18 9.5 L10 9.5 Z" }],
  diamond: ["path", { d: "M14 1.5 L18 6 L14 10.5 L10 6 Z" }],
};

/** The line and symbol of a series as a small drawing; reference lines have no symbols. */
function swatch(series, { color, symbol, dash, width }, kind) {
  const make = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const drawing = make("svg", { width: 28, height: 12, "aria-hidden": "true" });
  const [tag, shape] = kind === "bar" ? ["rect", { x: 8, y: 0, width: 12, height: 12, rx: 2 }] : MARKS[symbol];
  if (kind === "line")
    drawing.append(make("path", { d: "M0 6 H28", stroke: color, "stroke-width": width, "stroke-dasharray": dash.join(" ") }));
  const isBare = series.is_reference || series.is_right || series.is_moment;
  if (kind !== "line" || !isBare) drawing.append(make(tag, { ...shape, fill: color }));
  return drawing;
}

/** A cell for a CSV file; text that a spreadsheet would run as a formula is escaped. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function downloadTable(button) {
  const table = embedded(`table-${button.dataset.table}`);
  const lines = [table.columns.map((column) => column.name), ...table.rows];
  const text = lines.map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = `${button.dataset.table}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function copyText(button) {
  const block = document.getElementById(button.dataset.copy);
  getSelection().selectAllChildren(block);
  try {
    await navigator.clipboard.writeText(block.textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Selected: press Ctrl+C";
  }
}

const groups = Array.from(document.querySelectorAll(".chart-group"), (element) => new Group(element));
const redraw = () => groups.forEach((group) => group.show(group.view));
window.addEventListener("resize", () => groups.forEach((group) => group.resize()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
printing.addEventListener("change", () => {
  groups.forEach((group) => group.resize());
  redraw();
});
// Unfolds settings and their undo for printing, and folds them again afterwards.
window.addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll(".verdict details:not([open])")) {
    folded.open = true;
    window.addEventListener("afterprint", () => (folded.open = false), { once: true });
  }
});
for (const button of document.querySelectorAll("button[data-table]"))
  button.addEventListener("click", () => downloadTable(button));
for (const button of document.querySelectorAll("button[data-copy]"))
  button.addEventListener("click", () => copyText(button));
document.documentElement.dataset.ready = "yes";
