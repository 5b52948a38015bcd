// Charts of metrics: median with min–max band per role, mean with min–max band of one task, or median per job.
"use strict";
(() => {
  const colours = ["--running", "--set-up", "--rendezvous", "--saved", "--redone", "--stopping", "--leaf", "--still"];
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const binary = [...Array(50).keys()].map(power => 2 ** power);
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const second = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

  function times(_, splits, axis, space, step) {
    return splits.map(at => {
      const then = new Date(1000 * at);
      if (step >= 86400 || (then.getHours() === 0 && then.getMinutes() === 0)) return day.format(then);
      return (step < 60 ? second : clock).format(then);
    });
  }

  // What the horizontal axis shows: how to label it, and a point on it.
  function duration(seconds) {
    const whole = Math.round(seconds), pad = number => String(number).padStart(2, "0");
    if (whole < 60) return `${+seconds.toFixed(1)} s`;
    const hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
    return hours ? `${hours}:${pad(minutes)} h` : `${minutes}:${pad(whole % 60)} min`;
  }
  const axes = {
    time: { title: "Time", values: times, scale: {} },
    elapsed: { title: "Elapsed", values: (_, splits) => splits.map(duration), scale: { time: false },
      incrs: [.1, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18000, 36000, 86400, 172800, 604800] },
    step: { title: "Step", values: (_, splits) => splits.map(step => step.toLocaleString()), scale: { time: false } },
  };

  function format(value, unit) {
    if (value == null) return "–";
    if (unit === "B" || unit === "B/s") {
      const steps = ["B", "KiB", "MiB", "GiB", "TiB"];
      let at = 0;
      while (Math.abs(value) >= 1024 && at < 4) { value /= 1024; at++; }
      return `${+value.toPrecision(3)} ${steps[at]}${unit === "B/s" ? "/s" : ""}`;
    }
    if (unit === "share") return `${+(100 * value).toPrecision(3)} %`;
    if (unit === "Hz") return `${+(value / 1e9).toPrecision(3)} GHz`;
    const text = Math.abs(value) >= 1e5 ? Math.round(value).toLocaleString() : `${+value.toPrecision(4)}`;
    if (unit === "1/s") return `${text}/s`;
    return unit && unit !== "count" ? `${text} ${unit}` : text;
  }

  // Axis labels have room for a short unit only; a long one is in the title.
  const tick = (value, unit) => format(value, unit.length > 2 && !["share", "B/s"].includes(unit) ? "" : unit);

  // The axis is as wide as its longest label.
  function axisSize(chart, values, number, cycle) {
    const axis = chart.axes[number];
    if (cycle > 1) return axis._size;
    chart.ctx.font = axis.font[0];
    const widest = Math.max(0, ...(values ?? []).map(value => chart.ctx.measureText(value).width));
    return Math.max(44, Math.ceil(widest / devicePixelRatio) + 26);
  }

  // Merge lines with different grids: a line is undefined at places that it does not have, and null, which interrupts it,
  // in its own gaps: between two sessions, or where a logarithm has no value.
  function mergeLines(lines, { axis, log }, offset) {
    const gaps = lines.map(line => axis === "step" ? [] : line.at.filter((at, number) => line.at[number + 1] - at > gapIntervals * line.every).map(at => at + line.every));
    const places = [...new Set([...lines.flatMap(line => line.at), ...gaps.flat()])].sort((a, b) => a - b);
    const index = new Map(places.map((place, at) => [place, at]));
    const column = (line, name, number) => {
      const made = new Array(places.length).fill(undefined);
      gaps[number].forEach(place => { made[index.get(place)] = null; });
      line.at.forEach((place, at) => { const value = line[name][at]; made[index.get(place)] = log && value <= 0 ? null : value; });
      return made;
    };
    const names = line => ["most", "least", "middle", ...(line.unsmoothed.length ? ["unsmoothed"] : [])];
    return [places.map(place => place + offset), ...lines.flatMap((line, number) => names(line).map(name => column(line, name, number)))];
  }
  // A longer pause between two points, in intervals, interrupts a line.
  const gapIntervals = 5;

  function legendItems(found, at) {
    return found.lines.map((line, number) => {
      const index = nearest(line.at, at);
      if (index < 0) return null;
      const tasks = line.most_of.length;
      const range = line.unsmoothed.length ? ` (unsmoothed ${format(line.unsmoothed[index], found.unit)})` : tasks
        ? ` (${format(line.least[index], found.unit)} ${line.least_of[index]} – ${format(line.most[index], found.unit)} ${line.most_of[index]})`
        : ` (${format(line.least[index], found.unit)} – ${format(line.most[index], found.unit)})`;
      const middle = format(line.middle[index], found.unit);
      const equal = [line.least[index], line.most[index]].every(each => format(each, found.unit) === middle);
      return { number, label: line.label, text: middle, range: !line.unsmoothed.length && (equal || line.tasks === 1 && tasks) ? "" : range };
    }).filter(Boolean);
  }

  // Without a place on the axis: the newest values, as the server words them; or the last of each line.
  function newestItems(found) {
    if (!found.values.length) return legendItems(found, Infinity);
    return found.values.map((value, number) => {
      const line = found.lines.findIndex(each => each.label === value.label);
      return { number: line < 0 ? number : line, label: value.label, text: value.text, range: "" };
    });
  }

  function nearest(times, at) {
    if (at === Infinity) return times.length - 1;
    let best = -1;
    times.forEach((time, index) => { if (best < 0 || Math.abs(time - at) < Math.abs(times[best] - at)) best = index; });
    return best;
  }

  function showLegend(place, items) {
    place.replaceChildren(...items.flatMap(each => {
      const key = document.createElement("span");
      key.className = `key k${each.number % colours.length}`;
      const item = document.createElement("span");
      item.className = "item";
      const value = document.createElement("b");
      value.textContent = each.text;
      item.append(key, `${each.label} `, value, each.range);
      return [item, " "];
    }));
  }

  function table(found, axis, accepted) {
    const details = document.createElement("details");
    const summary = details.appendChild(document.createElement("summary"));
    summary.textContent = "Table";
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("table")) return;
      const made = details.appendChild(document.createElement("table"));
      made.tabIndex = 0;
      const head = made.createTHead().insertRow();
      for (const title of [axes[axis].title, ...found.lines.map(line => line.label)]) {
        const cell = head.appendChild(document.createElement("th"));
        cell.scope = "col"; cell.textContent = title;
      }
      const body = made.createTBody();
      const first = found.lines[0].at, step = Math.max(1, Math.ceil(first.length / 60));
      for (let at = 0; at < first.length; at += step) {
        const row = body.insertRow();
        const cell = row.insertCell();
        if (axis === "time") cell.innerHTML = `<time datetime="${new Date(1000 * (first[at] + accepted)).toISOString()}"></time>`;
        else cell.textContent = axes[axis].values(null, [first[at]])[0];
        for (const line of found.lines) row.insertCell().textContent = format(line.middle[nearest(line.at, first[at])], found.unit);
      }
      window.tony.localise(made);
    });
    return details;
  }

  function draw(figure, found, options) {
    const plot = figure.querySelector(".plot"), line = figure.querySelector(".values");
    const { axis, log, small } = options, offset = axis === "time" ? options.accepted : 0;
    plot.replaceChildren();
    const data = mergeLines(found.lines, options, offset);
    const series = [{}], bands = [];
    found.lines.forEach((each, number) => {
      const colour = css(colours[number % colours.length]);
      const edge = { stroke: colour + "55", width: 1, points: { show: false } };
      const first = series.length;
      series.push({ ...edge, label: `${each.label} max` }, { ...edge, label: `${each.label} min` },
        { label: each.label, stroke: colour, width: small ? 1.5 : 2, points: { show: data[0].length < 3 } });
      if (each.unsmoothed.length) series.push({ ...edge, label: `${each.label} unsmoothed`, stroke: colour + "44" });
      bands.push({ series: [first, first + 1], fill: colour + "22" });
    });
    const round = found.unit.startsWith("B") && !log ? { incrs: binary } : {};
    const look = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "11px system-ui" };
    const height = small ? 96 : 190;
    const range = log
      ? (_, low, high) => low == null || low <= 0 ? [0.1, 1] : uPlot.rangeLog(low, high, 10, false)
      : (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1];
    const chart = new uPlot({
      width: Math.max(140, plot.clientWidth), height, series, bands, legend: { show: false }, ...(small ? { padding: [8, 4, 8, 0] } : {}),
      cursor: { drag: { x: true, y: false, setScale: true }, sync: { key: `${axis} charts` } },
      scales: { x: { ...axes[axis].scale, range: (self, low, high) => self.data[0].length < 2 ? [low - 5, low + 5] : [low, high] }, y: { range, ...(log ? { distr: 3 } : {}) } },
      axes: [
        { ...look, space: 70, size: 30, show: !small, values: axes[axis].values, ...(axes[axis].incrs ? { incrs: axes[axis].incrs } : {}) },
        { ...look, ...round, size: axisSize, ...(small ? { space: 24 } : {}), values: (_, values) => values.map(value => value == null ? "" : tick(value, found.unit)) },
      ],
      hooks: { setCursor: [self => {
        const at = self.cursor.idx;
        showLegend(line, at == null ? newestItems(found) : legendItems(found, data[0][at] - offset));
      }] },
    }, data, plot);
    showLegend(line, newestItems(found));
    const canvas = plot.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent.trim()}. Newest: ${line.textContent.trim()}`);
    figure.dataset.drawn = "yes";
    return chart;
  }

  // Milliseconds between two updates of the charts of a running job, at least.
  const updatePause = 5000;

  function begin(place) {
    const base = place.dataset.charts, join = base.includes("?") ? "&" : "?";
    const options = { axis: place.dataset.axis, log: place.dataset.scale === "log", small: place.classList.contains("strip"), accepted: +place.dataset.accepted };
    const drawn = new Map();
    const request = figure => window.tony.text(`${base}${join}series=${encodeURIComponent(figure.dataset.series)}`, "json");
    const seen = new IntersectionObserver(entries => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        load(entry.target).catch(() => { entry.target.querySelector(".values").textContent = "This metric is not available right now."; });
      }
    }, { rootMargin: "300px" });

    function show(figure, found) {
      const known = drawn.get(figure);
      if (known) known.chart.destroy();
      figure.querySelector("details")?.remove();
      drawn.set(figure, { found, chart: draw(figure, found, options) });
      if (!options.small) figure.append(table(found, options.axis, options.accepted));
    }

    async function load(figure) {
      const found = await request(figure);
      if (!found.lines.length) {
        figure.querySelector(".plot").textContent = options.axis === "step" ? "No steps were reported for this metric." : "";
        return;
      }
      show(figure, found);
      let width = figure.querySelector(".plot").clientWidth;
      new ResizeObserver(() => {
        const now = figure.querySelector(".plot").clientWidth;
        if (now && now !== width) { width = now; const { chart } = drawn.get(figure); chart.setSize({ width: Math.max(140, now), height: chart.height }); }
      }).observe(figure);
    }

    // A chart that is looked at closely is left alone: zoomed, pointed at, or with its table open.
    const inUse = (figure, chart) => figure.matches(":hover") || figure.querySelector("details[open]") || figure.contains(document.activeElement)
      || chart.scales.x.min > chart.data[0][0] || chart.scales.x.max < chart.data[0].at(-1);

    let updatedAt = Date.now();
    async function update() {
      if (!place.isConnected || Date.now() - updatedAt < updatePause) return;
      updatedAt = Date.now();
      for (const [figure, { chart }] of drawn) {
        const box = figure.getBoundingClientRect();
        if (box.bottom < 0 || box.top > innerHeight || inUse(figure, chart)) continue;
        const found = await request(figure);
        if (found.lines.length) show(figure, found);
      }
    }

    place.querySelectorAll("figure[data-series]").forEach(figure => seen.observe(figure));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const [figure, { found }] of drawn) show(figure, found); });
    document.addEventListener("tony-refresh", () => update().catch(() => {}));
  }

  document.querySelectorAll("[data-charts]").forEach(begin);
  document.addEventListener("tony-swap", event => event.target.querySelectorAll("[data-charts]").forEach(begin));
})();
