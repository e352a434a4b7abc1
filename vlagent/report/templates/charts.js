(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const figures = [...document.querySelectorAll("#curves .chart[data-chart]")];
  const big = document.getElementById("big");
  const smooth = document.getElementById("smooth");
  const metric = document.getElementById("metric");
  const SVG = "http://www.w3.org/2000/svg";
  const shownLines = 12;
  let cursor = null;

  function node(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function short(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(1);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(3)));
  }

  // a tick of an axis that spans little needs more digits than its value
  function tick(value, step) {
    const digits = Math.ceil(Math.log10(Math.abs(value) / step));
    return digits > 2 && digits < 9 && Math.abs(value) < 1000 ? value.toFixed(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))) : short(value);
  }

  function ticks(low, high, count) {
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= raw * 0.999);
    const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-6);
    const found = Array.from({ length: Math.min(50, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(10)));
    return found;
  }

  // exponential moving average that starts unbiased
  function smoothed(points, weight) {
    if (!weight) return points;
    let sum = 0, norm = 0;
    return points.map(([x, y]) => {
      if (y === null) return [x, y];
      sum = weight * sum + (1 - weight) * y;
      norm = weight * norm + (1 - weight);
      return [x, sum / norm];
    });
  }

  function range(chart) {
    const xs = [], ys = [];
    for (const line of chart.lines) {
      for (const [x, y] of line.points) { xs.push(x); if (y !== null) ys.push(y); }
      for (const [, low, high] of line.band) ys.push(low, high);
    }
    for (const [x] of chart.marks) xs.push(x);
    let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    if (!ys.length) [y0, y1] = [0, 1];
    // equal but for rounding
    if (y1 - y0 < 1e-9 * Math.max(Math.abs(y0), Math.abs(y1))) y1 = y0;
    if (x0 === x1) { x0 -= 1; x1 += 1; }
    if (y0 >= 0 && y0 < 0.5 * y1) y0 = 0;
    else if (y0 !== y1) y0 -= 0.05 * (y1 - y0);
    if (y0 === y1) { const pad = Math.abs(y0) * 0.1 || 1; y0 -= pad; y1 += pad; }
    return { x0, x1, y0, y1: y1 + 0.05 * (y1 - y0) };
  }

  function runs(points) {
    const found = [[]];
    for (const point of points) {
      if (point[1] === null) found.push([]);
      else found[found.length - 1].push(point);
    }
    return found.filter((run) => run.length);
  }

  function path(points, px, py) {
    return points.map(([x, y], i) => (i ? "L" : "M") + px(x).toFixed(1) + " " + py(y).toFixed(1)).join("");
  }

  function draw(figure, chart, width, height) {
    const box = { left: 54, right: width - 8, top: 8, bottom: height - 22 };
    const { x0, x1, y0, y1 } = range(chart);
    const px = (x) => box.left + ((x - x0) / (x1 - x0)) * (box.right - box.left);
    const py = (y) => box.bottom - ((y - y0) / (y1 - y0)) * (box.bottom - box.top);
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chart.title });
    const rows = ticks(y0, y1, 4);
    for (const y of rows) {
      svg.append(node("line", { class: "axis", x1: box.left, x2: box.right, y1: py(y), y2: py(y) }));
      svg.append(node("text", { x: box.left - 5, y: py(y) + 4, "text-anchor": "end" }, tick(y, rows.length > 1 ? rows[1] - rows[0] : 1)));
    }
    for (const x of ticks(x0, x1, Math.floor(width / 80))) {
      svg.append(node("text", { x: px(x), y: height - 6, "text-anchor": "middle" }, short(x)));
    }
    for (const [x, words] of chart.marks) {
      const mark = node("line", { class: "mark", x1: px(x), x2: px(x), y1: box.top, y2: box.bottom });
      mark.append(node("title", {}, words));
      svg.append(mark);
    }
    const weight = Number(smooth.value);
    chart.lines.slice(0, shownLines).forEach((line, i) => {
      const color = `--c: var(--l${i % 8})`;
      if (line.band.length) {
        const up = line.band.map(([x, , high]) => [x, high]), down = line.band.map(([x, low]) => [x, low]).reverse();
        svg.append(node("path", { class: "band", style: color, d: path([...up, ...down], px, py) + "Z" }));
      }
      const draws = weight ? [[line.points, " faint"], [smoothed(line.points, weight), ""]] : [[line.points, line.thin ? " faint" : ""]];
      for (const [points, extra] of draws) {
        for (const run of runs(points)) {
          if (run.length === 1) svg.append(node("circle", { class: "dots", style: color, cx: px(run[0][0]), cy: py(run[0][1]), r: 2.5 }));
          else svg.append(node("path", { class: "curve" + extra, style: color, d: path(run, px, py) }));
        }
      }
    });
    const hand = node("line", { class: "hand", y1: box.top, y2: box.bottom, x1: 0, x2: 0, visibility: "hidden" });
    svg.append(hand);
    figure.querySelector(".plot").replaceChildren(svg);
    figure.state = { chart, svg, hand, px, x0, x1, box, width };
    legend(figure);
  }

  // the value at a step, or at the measured step next to it
  function at(points, x) {
    if (x === Infinity) return points[points.length - 1];
    return points.reduce((best, each) => (best === null || Math.abs(each[0] - x) < Math.abs(best[0] - x) ? each : best), null);
  }

  function legend(figure) {
    const { chart } = figure.state;
    const list = figure.querySelector(".legend");
    const items = chart.lines.slice(0, shownLines).map((line, i) => {
      const item = document.createElement("li");
      item.style = `--c: var(--l${i % 8})`;
      const points = smoothed(line.points, Number(smooth.value));
      const point = at(points, cursor === null ? Infinity : cursor);
      const value = document.createElement("b");
      value.textContent = short(point ? point[1] : null);
      item.append(document.createElement("i"), line.label, value);
      return item;
    });
    if (chart.lines.length > shownLines) items.push(Object.assign(document.createElement("li"), { textContent: `and ${chart.lines.length - shownLines} more` }));
    list.replaceChildren(...items);
  }

  function point(x) {
    cursor = x;
    const name = charts.length ? charts[0].x : "step";
    document.getElementById("cursor").textContent = x === null ? "" : `${name} ${short(x)}`;
    for (const figure of [...figures, big.querySelector(".chart")]) {
      if (!figure.state) continue;
      const { hand, px, x0, x1 } = figure.state;
      const seen = x !== null && x >= x0 && x <= x1;
      hand.setAttribute("visibility", seen ? "visible" : "hidden");
      if (seen) { hand.setAttribute("x1", px(x)); hand.setAttribute("x2", px(x)); }
      legend(figure);
    }
  }

  const stepsOf = (chart) => [...new Set(chart.lines.flatMap((line) => line.points.map(([x]) => x)))].sort((a, b) => a - b);

  function hover(figure, event) {
    const { svg, box, width, x0, x1, chart } = figure.state;
    const frame = svg.getBoundingClientRect();
    const share = (((event.clientX - frame.left) / frame.width) * width - box.left) / (box.right - box.left);
    const x = x0 + Math.min(1, Math.max(0, share)) * (x1 - x0);
    const steps = stepsOf(chart);
    point(steps.reduce((best, step) => (Math.abs(step - x) < Math.abs(best - x) ? step : best), steps[0]));
  }

  function open(figure) {
    const chart = charts[Number(figure.dataset.chart)];
    const target = big.querySelector(".chart");
    big.querySelector("figcaption").textContent = chart.title;
    big.setAttribute("aria-label", chart.title);
    draw(target, chart, 900, 420);
    big.showModal();
    point(cursor);
  }

  function move(by) {
    const steps = stepsOf(big.querySelector(".chart").state.chart);
    const now = cursor === null ? (by > 0 ? -1 : steps.length) : steps.indexOf(cursor);
    point(steps[Math.min(steps.length - 1, Math.max(0, now + by))]);
  }

  function drawAll() {
    for (const figure of figures) if (!figure.hidden) draw(figure, charts[Number(figure.dataset.chart)], 360, 190);
    if (big.open) draw(big.querySelector(".chart"), big.querySelector(".chart").state.chart, 900, 420);
    point(cursor);
  }

  function find() {
    const words = metric.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const figure of figures) figure.hidden = !words.every((word) => figure.dataset.words.includes(word));
    for (const part of document.querySelectorAll("section.charts")) part.hidden = !part.querySelector(".chart:not([hidden])");
    document.getElementById("nocurve").hidden = figures.length === 0 || figures.some((figure) => !figure.hidden);
    drawAll();
  }

  for (const figure of [...figures, big.querySelector(".chart")]) {
    figure.addEventListener("mousemove", (event) => figure.state && hover(figure, event));
    figure.addEventListener("mouseleave", () => { if (!big.open) point(null); });
  }
  for (const figure of figures) {
    figure.addEventListener("click", () => open(figure));
    figure.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(figure); }
    });
  }
  big.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "ArrowRight") move(1);
    else if (event.key === "ArrowLeft") move(-1);
  });
  big.addEventListener("click", (event) => { if (event.target === big || event.target.closest("button")) big.close(); });
  big.addEventListener("close", () => point(null));
  smooth.addEventListener("input", drawAll);
  metric.addEventListener("input", find);
  document.querySelector(".chartbar").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("keydown", (event) => {
    if (event.key !== "m" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input[type=search], select")) return;
    event.preventDefault();
    metric.focus();
    metric.select();
  });
  metric.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    metric.value = "";
    find();
    metric.blur();
  });
  drawAll();
})();
