// Charts over time. Data and words come from /api/v1/series; here they are only drawn.
(() => {
  const REFRESH_MS = 60_000;
  const HEIGHT = 150;
  const NEAR_PX = 9; // marks closer than this are one button
  // Colours are names of CSS variables; dashes tell lines apart without them.
  const LOOKS = {
    offered: { color: "--soft", dash: [5, 4] },
    finished: { color: "--accent" },
    rejected: { color: "--ticket", dash: [2, 3] },
    failed: { color: "--page" },
    attainment: { color: "--accent" },
    ttft_p50: { color: "--soft", dash: [5, 4] },
    ttft_p95: { color: "--accent" },
    tokens_in: { color: "--soft" },
    tokens_reused: { color: "--faint", dash: [2, 3] },
    tokens_out: { color: "--accent" },
    active: { color: "--accent" },
    queued: { color: "--queue", dash: [5, 4] },
    budget: { color: "--accent" },
  };
  const CHANGES = new Set(["config", "override", "rollout"]); // marks of what somebody decided
  const SIGNS = { failure: "▲", incident: "◆", config: "◇", silence: "□", replica: "·" };
  const PERCENT = new Set(["share", "budget"]);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const two = (number) => String(number).padStart(2, "0");
  const clock = (seconds, withDate) => {
    const date = new Date(seconds * 1000);
    const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
    return withDate ? `${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())} ${time}` : time;
  };
  const round = (value) => {
    if (value === 0) return "0";
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return Number(value.toFixed(digits)).toLocaleString("en-US", { maximumFractionDigits: digits });
  };
  const show = (value, unit) => {
    if (value === null || value === undefined) return "unknown";
    if (unit === "share") return `${value === 1 ? 100 : Math.min(99.99, Number((value * 100).toFixed(value > 0.995 ? 2 : 1)))} %`;
    if (unit === "budget") return `${round(value * 100)} %`;
    if (unit === "seconds") return value < 0.9995 ? `${round(value * 1000)} ms` : `${round(value)} s`;
    if (unit === "requests") return round(value);
    return `${round(value)} ${unit}`;
  };

  // Of the last bucket, while it is under way; null when it is whole.
  const minutesSoFar = (series) => (series.last_step_seconds < series.step_seconds ? series.last_step_seconds / 60 : null);
  const bucketName = (series, index, withDate) => {
    const name = clock(series.times_unix[index], withDate);
    const soFar = index === series.times_unix.length - 1 ? minutesSoFar(series) : null;
    return soFar === null ? name : `${name}, ${soFar} min so far`;
  };

  class Chart {
    constructor(chart, series, isFirst) {
      this.chart = chart;
      this.series = series;
      this.hasDates = series.end_unix - series.start_unix > 86_400;
      this.figure = element("figure", "plot");
      this.caption = element("figcaption");
      this.caption.append(element("b", "", chart.title), element("span", "u", ` ${PERCENT.has(chart.unit) || chart.unit === "seconds" ? "" : chart.unit}`));
      this.legend = element("span", "keys");
      this.caption.append(this.legend);
      this.holder = element("div", "canvas");
      this.tip = element("div", "tip");
      this.tip.hidden = true;
      this.figure.append(this.caption, this.holder, this.tip);
      this.isKnown = chart.lines.some((line) => line.values.some((value) => value !== null));
      this.isFirst = isFirst;
    }

    draw() {
      this.fillLegend(null);
      if (!this.isKnown) {
        this.holder.append(element("p", "s", "○ Unknown in this range."));
      } else {
        this.plot = new uPlot(this.options(), [this.series.times_unix, ...this.chart.lines.map((line) => line.values)], this.holder);
        this.placeMarks();
      }
      this.figure.append(element("p", "note", this.chart.note), this.table());
    }

    options() {
      const axis = { stroke: () => css("--faint"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      const isShare = this.chart.unit === "share";
      return {
        width: Math.max(this.holder.clientWidth, 200),
        height: HEIGHT,
        legend: { show: false },
        cursor: { sync: { key: "pilothouse" }, y: false, drag: { x: false, y: false } },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        scales: {
          x: { time: true, range: () => [this.series.start_unix, this.series.end_unix] },
          y: { range: (_, low, high) => (this.chart.unit === "budget" ? [Math.min(0, low ?? 0) * 1.08, 1] : isShare ? [Math.max(0, Math.min(low ?? 0, 0.99) - 0.01), 1] : [0, high > 0 ? high * 1.08 : 1]) },
        },
        axes: [
          { ...axis, space: 64, size: 28, values: (_, splits) => splits.map((at) => clock(at, this.hasDates && this.series.end_unix - this.series.start_unix > 2 * 86_400)) },
          { ...axis, space: 34, size: 52, values: (_, splits) => splits.map((value) => (this.chart.unit === "requests" || this.chart.unit.includes("/") ? round(value) : show(value, this.chart.unit))) },
        ],
        series: [
          {},
          ...this.chart.lines.map((line) => ({
            label: line.label,
            stroke: () => css(LOOKS[line.name]?.color ?? "--ink"),
            dash: LOOKS[line.name]?.dash,
            width: 1.5,
            spanGaps: false,
            points: { show: false, filter: (_u, index, isShown, gaps) => lonely(line.values), size: 4 },
          })),
        ],
        hooks: {
          setCursor: [(plot) => this.fillLegend(plot.cursor.idx)],
          drawAxes: [(plot) => this.drawMarks(plot)],
          setSize: [() => this.placeMarks()],
        },
      };
    }

    fillLegend(index) {
      const values = (line) => line.values[index ?? lastKnown(line.values)];
      const isAt = index !== null && index !== undefined;
      this.legend.replaceChildren(
        ...this.chart.lines.map((line) => {
          const key = element("span", "line");
          const swatch = element("i", `swatch w-${line.name}`);
          key.append(swatch, document.createTextNode(` ${line.label} `), element("b", "", show(values(line), this.chart.unit)));
          return key;
        }),
        element("span", "mute", isAt ? `${bucketName(this.series, index, this.hasDates)} UTC` : "last known"),
      );
    }

    drawMarks(plot) {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.globalAlpha = 0.16;
      ctx.fillStyle = css("--faint");
      for (const band of this.series.bands ?? []) {
        const left = plot.valToPos(band.start_unix, "x", true);
        ctx.fillRect(left, bbox.top, plot.valToPos(band.end_unix, "x", true) - left, bbox.height);
      }
      ctx.globalAlpha = 1;
      ctx.lineWidth = devicePixelRatio;
      for (const mark of this.series.marks) {
        const x = plot.valToPos(mark.at_unix_ns / 1e9, "x", true);
        ctx.strokeStyle = css(mark.kind === "failure" ? "--page" : mark.kind === "incident" ? "--ticket" : CHANGES.has(mark.kind) ? "--accent" : "--faint");
        ctx.setLineDash(CHANGES.has(mark.kind) ? [] : [2 * devicePixelRatio, 3 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    }

    placeMarks() {
      if (!this.plot) return;
      this.plot.over.querySelectorAll(".mark").forEach((each) => each.remove());
      for (const group of this.grouped()) {
        const has = (kind) => group.marks.some((mark) => mark.kind === kind);
        const worst = has("failure") ? "failure" : has("incident") ? "incident" : group.marks.some((mark) => CHANGES.has(mark.kind)) ? "config" : has("silence") ? "silence" : "replica";
        const button = element("button", `mark k-${worst}`, SIGNS[worst]);
        button.type = "button";
        button.style.left = `${group.x}px`;
        // Every chart has the same changes: the keyboard visits them once.
        if (!this.isFirst) button.tabIndex = -1;
        const text = group.marks.map((mark) => `${clock(mark.at_unix_ns / 1e9, this.hasDates)} UTC ${mark.text}`);
        button.setAttribute("aria-label", text.join("; "));
        const open = () => this.openTip(group.x, text);
        const close = () => { this.tip.hidden = true; };
        button.addEventListener("mouseenter", open);
        button.addEventListener("focus", open);
        button.addEventListener("click", open);
        button.addEventListener("mouseleave", close);
        button.addEventListener("blur", close);
        button.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
        this.plot.over.append(button);
      }
    }

    grouped() {
      const groups = [];
      for (const mark of this.series.marks) {
        const x = this.plot.valToPos(mark.at_unix_ns / 1e9, "x");
        const last = groups.at(-1);
        if (last && x - last.x < NEAR_PX) last.marks.push(mark);
        else groups.push({ x, marks: [mark] });
      }
      return groups;
    }

    openTip(x, lines) {
      const shown = lines.slice(0, 6).map((line) => element("p", "", line));
      if (lines.length > 6) shown.push(element("p", "mute", `and ${lines.length - 6} more, in the numbers below`));
      this.tip.replaceChildren(...shown);
      this.tip.hidden = false;
      const room = this.figure.clientWidth - this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(0, Math.min(x + 40, room))}px`;
    }

    table() {
      const details = element("details");
      details.append(element("summary", "", `${this.chart.title} as numbers`));
      details.addEventListener("toggle", () => {
        if (details.open && details.children.length === 1) details.append(this.numbers());
      });
      return details;
    }

    numbers() {
      const region = element("div", "panel numbers");
      region.tabIndex = 0;
      region.setAttribute("role", "region");
      region.setAttribute("aria-label", `${this.chart.title} as numbers`);
      const table = element("table");
      const head = element("tr");
      for (const title of ["From, UTC", ...this.chart.lines.map((line) => line.label), "Changes"]) {
        const cell = element("th", title === "From, UTC" || title === "Changes" ? "" : "n", title);
        cell.scope = "col";
        head.append(cell);
      }
      const body = element("tbody");
      this.series.times_unix.forEach((at, index) => {
        const row = element("tr");
        const time = element("th", "", bucketName(this.series, index, this.hasDates));
        time.scope = "row";
        const during = this.series.marks.filter((mark) => mark.at_unix_ns / 1e9 >= at && mark.at_unix_ns / 1e9 < at + this.series.step_seconds);
        row.append(time, ...this.chart.lines.map((line) => element("td", line.values[index] === null ? "n mute" : "n", show(line.values[index], this.chart.unit))), element("td", "wrap s", during.map((mark) => mark.text).join("; ")));
        body.prepend(row); // the newest first
      });
      const header = element("thead");
      header.append(head);
      table.append(header, body);
      region.append(table);
      return region;
    }
  }

  const lastKnown = (values) => {
    for (let index = values.length - 1; index >= 0; index -= 1) if (values[index] !== null) return index;
    return values.length - 1;
  };
  // A value between two gaps has no line to be seen by, so it gets a point.
  const lonely = (values) =>
    values.flatMap((value, index) => (value !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null ? [index] : []));

  class Charts {
    constructor(section) {
      this.section = section;
      this.status = section.querySelector(".status");
      this.plots = section.querySelector(".plots");
      this.charts = [];
    }

    async load() {
      try {
        const response = await fetch(this.section.dataset.series, { headers: { accept: "application/json" } });
        const answer = await response.json();
        if (!response.ok) throw new Error(answer.detail ?? `status ${response.status}`);
        this.show(answer);
      } catch (error) {
        this.say(`○ The charts cannot be read: ${error.message}. The next try is in a minute.`);
      }
    }

    show(series) {
      if (this.isBusy()) return; // somebody reads a table or a mark: next time
      for (const each of this.charts) each.plot?.destroy();
      this.charts = series.charts.map((chart, index) => new Chart(chart, series, index === 0));
      this.plots.replaceChildren(...this.charts.map((each) => each.figure));
      for (const each of this.charts) each.draw();
      const isUnknown = this.charts.every((each) => !each.isKnown);
      this.say(
        isUnknown
          ? this.charts[0]?.chart.unit === "budget"
            ? "○ Nothing was judged in the period of these budgets, so nobody knows what is left of them."
            : "○ No gateway was heard in this range: there is nothing to draw, which is not the same as no traffic."
          : `${series.range} until ${clock(series.end_unix, true)} UTC, in steps of ${series.step_seconds / 60} min${minutesSoFar(series) === null ? "" : `; the last is of the ${minutesSoFar(series)} min that have passed`}. In a gap, nobody knows.`,
      );
    }

    isBusy() {
      return this.plots.contains(document.activeElement) || this.plots.querySelector("details[open]") !== null;
    }

    say(text) {
      this.status.textContent = text;
    }

    resize() {
      for (const each of this.charts) {
        const width = each.holder.clientWidth;
        if (each.plot && width > 0 && width !== each.plot.width) each.plot.setSize({ width, height: HEIGHT });
      }
    }

    recolor() {
      for (const each of this.charts) each.plot?.redraw(false, true);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const section of document.querySelectorAll("[data-series]")) {
      const charts = new Charts(section);
      new ResizeObserver(() => charts.resize()).observe(section);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.recolor());
      new MutationObserver(() => charts.recolor()).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
      setInterval(() => { if (!document.hidden) charts.load(); }, REFRESH_MS);
      charts.load();
    }
  });
})();
