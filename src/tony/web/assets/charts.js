// Charts of metrics: median with min–max band per role, or mean with min–max band of one task.
"use strict";
(() => {
  const colours = ["--running", "--set-up", "--rendezvous", "--saved", "--redone", "--stopping"];
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

  // Merge lines with different time grids: a line is undefined at times that it does not have.
  function mergeLines(lines, accepted) {
    const times = [...new Set(lines.flatMap(line => line.at))].sort((a, b) => a - b);
    const place = new Map(times.map((time, at) => [time, at]));
    const column = (line, name) => {
      const made = new Array(times.length).fill(undefined);
      line.at.forEach((time, at) => { made[place.get(time)] = line[name][at]; });
      return made;
    };
    return [times.map(time => time + accepted), ...lines.flatMap(line => [column(line, "most"), column(line, "least"), column(line, "middle")])];
  }

  function legendItems(found, at) {
    return found.lines.map((line, number) => {
      const index = nearest(line.at, at);
      if (index < 0) return "";
      const range = line.most_of
        ? ` (${format(line.least[index], found.unit)} ${line.least_of[index]} – ${format(line.most[index], found.unit)} ${line.most_of[index]})`
        : ` (${format(line.least[index], found.unit)} – ${format(line.most[index], found.unit)})`;
      const middle = format(line.middle[index], found.unit);
      const equal = [line.least[index], line.most[index]].every(each => format(each, found.unit) === middle);
      return { number, text: `${line.label} ${middle}${equal || line.tasks === 1 && line.most_of ? "" : range}` };
    }).filter(Boolean);
  }

  function nearest(times, at) {
    let best = -1;
    times.forEach((time, index) => { if (best < 0 || Math.abs(time - at) < Math.abs(times[best] - at)) best = index; });
    return best;
  }

  function showLegend(place, found, at) {
    place.replaceChildren(...legendItems(found, at).flatMap(each => {
      const key = document.createElement("span");
      key.className = `key k${each.number % colours.length}`;
      const item = document.createElement("span");
      item.className = "item";
      item.append(key, each.text);
      return [item, " "];
    }));
  }

  function table(found, accepted) {
    const details = document.createElement("details");
    const summary = details.appendChild(document.createElement("summary"));
    summary.textContent = "Table";
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("table")) return;
      const made = details.appendChild(document.createElement("table"));
      made.tabIndex = 0;
      const head = made.createTHead().insertRow();
      for (const title of ["Time", ...found.lines.map(line => line.label)]) {
        const cell = head.appendChild(document.createElement("th"));
        cell.scope = "col"; cell.textContent = title;
      }
      const body = made.createTBody();
      const first = found.lines[0].at, step = Math.max(1, Math.ceil(first.length / 60));
      for (let at = 0; at < first.length; at += step) {
        const row = body.insertRow();
        row.insertCell().innerHTML = `<time datetime="${new Date(1000 * (first[at] + accepted)).toISOString()}"></time>`;
        for (const line of found.lines) row.insertCell().textContent = format(line.middle[nearest(line.at, first[at])], found.unit);
      }
      window.tony.localise(made);
    });
    return details;
  }

  function draw(figure, found, accepted) {
    const plot = figure.querySelector(".plot"), line = figure.querySelector(".values");
    plot.replaceChildren();
    const data = mergeLines(found.lines, accepted);
    const series = [{}], bands = [];
    found.lines.forEach((each, number) => {
      const colour = css(colours[number % colours.length]);
      const edge = { stroke: colour + "55", width: 1, points: { show: false }, spanGaps: true };
      series.push({ ...edge, label: `${each.label} max` }, { ...edge, label: `${each.label} min` },
        { label: each.label, stroke: colour, width: 2, points: { show: data[0].length < 3 }, spanGaps: true });
      bands.push({ series: [3 * number + 1, 3 * number + 2], fill: colour + "22" });
    });
    const round = found.unit.startsWith("B") ? { incrs: binary } : {};
    const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "11px system-ui" };
    const size = () => ({ width: Math.max(200, plot.clientWidth), height: 190 });
    const chart = new uPlot({
      ...size(), series, bands, legend: { show: false }, cursor: { drag: { x: true, y: false } },
      scales: { x: { range: (self, low, high) => self.data[0].length < 2 ? [low - 5, low + 5] : [low, high] }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
      axes: [{ ...axis, space: 70, size: 30, values: times }, { ...axis, ...round, size: axisSize, values: (_, values) => values.map(value => tick(value, found.unit)) }],
      hooks: { setCursor: [self => { const at = self.cursor.idx; if (at != null) showLegend(line, found, data[0][at] - accepted); }] },
    }, data, plot);
    const canvas = plot.querySelector("canvas");
    const last = Math.max(...found.lines.map(each => each.at[each.at.length - 1]));
    showLegend(line, found, last);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${found.name}: ${found.what}. Last: ${line.textContent.trim()}`);
    figure.dataset.drawn = "yes";
    return chart;
  }

  function begin(place) {
    const base = place.dataset.charts, accepted = +place.dataset.accepted;
    const join = base.includes("?") ? "&" : "?";
    const redraw = [];
    const seen = new IntersectionObserver(entries => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        load(entry.target).catch(() => { entry.target.querySelector(".values").textContent = "This metric is not available right now."; });
      }
    }, { rootMargin: "300px" });

    async function load(figure) {
      const found = await window.tony.text(`${base}${join}series=${encodeURIComponent(figure.dataset.series)}`, "json");
      if (!found.lines.length) { figure.remove(); return; }
      let chart = draw(figure, found, accepted);
      figure.append(table(found, accepted));
      let width = figure.querySelector(".plot").clientWidth;
      redraw.push(() => { chart.destroy(); chart = draw(figure, found, accepted); });
      new ResizeObserver(() => {
        const now = figure.querySelector(".plot").clientWidth;
        if (now !== width) { width = now; chart.setSize({ width: Math.max(200, now), height: 190 }); }
      }).observe(figure);
    }

    window.tony.text(base, "json").then(found => {
      place.replaceChildren();
      if (!found.series.length) {
        const note = place.appendChild(document.createElement("p"));
        note.className = "note"; note.textContent = found.problem || "No metrics yet.";
      }
      for (const each of found.series) {
        const figure = place.appendChild(document.createElement("figure"));
        figure.className = "chart"; figure.dataset.series = each.name;
        const title = figure.appendChild(document.createElement("figcaption"));
        title.appendChild(document.createElement("b")).textContent = each.title;
        title.append(` ${each.what}`);
        for (const name of ["plot", "values"]) figure.appendChild(document.createElement("div")).className = name;
        seen.observe(figure);
      }
    }).catch(() => {});
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw.forEach(each => each()));
  }

  document.querySelectorAll("[data-charts]").forEach(begin);
})();
