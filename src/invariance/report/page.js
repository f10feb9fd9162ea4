"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const each = (selector, act, within = document) => within.querySelectorAll(selector).forEach(act);
  const value = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  // Charts

  const colour = (name) => {
    if (name === "ink") return value("--ink");
    const lighter = (part) => Math.round(parseInt(part, 16) * 0.75 + 64);
    return isDark() ? `rgb(${name.match(/[0-9a-f]{2}/g).map(lighter)})` : name; // the same hues, seen on black
  };
  const painted = (inner) => {
    if (/^(ink|#[0-9a-f]{6})$/.test(inner)) return colour(inner);
    if (!inner || typeof inner !== "object" || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).map(([key, deeper]) => [key, key === "name" || key === "meta" ? deeper : painted(deeper)]));
  };

  const themed = (layout, size) => {
    const axis = (own) => ({
      gridcolor: value("--grid"), linecolor: value("--line"), zerolinecolor: value("--line"), automargin: true, ...own,
      title: { standoff: 8, ...own.title, font: { size: 11 } },
    });
    return {
      ...layout,
      xaxis: axis(layout.xaxis),
      yaxis: axis(layout.yaxis),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: value("--ink") },
      hoverlabel: { bgcolor: value("--paper"), bordercolor: value("--line"), font: { color: value("--ink"), size: 12 } },
      margin: { l: 48, r: 12, t: 12, b: 40 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: value("--line"), activecolor: value("--muted") },
      showlegend: false,
      dragmode: touch.matches ? false : "zoom",
      uirevision: "kept",
      ...(size ? { ...size, autosize: false } : { autosize: true }),
    };
  };

  const chosen = (chart) => {
    const off = new Set();
    each('.legend button[aria-pressed="false"]', (button) => off.add(button.dataset.name), chart.closest("article"));
    return off;
  };

  const draw = (chart, size = null) => {
    const { traces, layout } = JSON.parse(chart.nextElementSibling.textContent);
    const off = chosen(chart);
    const shown = traces.map((trace) => ({ ...painted(trace), visible: !off.has(trace.meta) }));
    chart.dataset.drawn = "yes";
    return Plotly.react(chart, shown, themed(layout, size), {
      responsive: true, displaylogo: false, displayModeBar: touch.matches ? false : "hover",
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], // none that would send anything anywhere
    });
  };

  const redraw = (size = () => null) => {
    each(".swatch", (swatch) => { swatch.style.borderTopColor = colour(swatch.dataset.colour); });
    each('.chart[data-drawn="yes"]', (chart) => draw(chart, size(chart)));
  };

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "600px" });
  each(".chart", (chart) => near.observe(chart));

  each(".legend", (legend) => {
    const buttons = [...legend.querySelectorAll("button")];
    const apply = () => each('.chart[data-drawn="yes"]', (chart) => draw(chart), legend.closest("article"));
    legend.addEventListener("click", ({ target, shiftKey }) => {
      const button = target.closest("button");
      if (!button) return;
      const on = (one) => one.getAttribute("aria-pressed") === "true";
      if (shiftKey) {
        const alone = on(button) && buttons.filter(on).length === 1;
        for (const one of buttons) one.setAttribute("aria-pressed", String(alone || one === button));
      } else {
        button.setAttribute("aria-pressed", String(!on(button)));
      }
      apply();
    });
    for (const button of buttons) button.title = "Click: switch off or on. Shift-click: this one alone.";
  });

  // Light, dark and paper

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    redraw();
  });
  dark.addEventListener("change", () => redraw());
  const PAPER = 680; // pixels across a page of A4
  const PRINTED = 0.68; // size of tables in print, of that on screen
  let screen;
  addEventListener("beforeprint", () => {
    screen = root.dataset.theme;
    root.dataset.theme = "light";
    each(".chart", (chart) => { chart.dataset.drawn = "yes"; });
    each("table", (table) => { table.style.zoom = Math.min(1, PAPER / (PRINTED * table.scrollWidth || 1)); });
    redraw((chart) => (chart.closest(".single") ? { width: 640, height: 320 } : { width: 325, height: 250 }));
  });
  addEventListener("afterprint", () => {
    if (screen) root.dataset.theme = screen;
    else delete root.dataset.theme;
    each("table", (table) => { table.style.zoom = ""; });
    redraw();
  });
  redraw();

  // Tables

  const key = (row, column) => {
    const cell = row.children[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
    return typeof a === "number" ? -1 : 1;
  };
  each("table.sortable", (table) => {
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const body = table.tBodies[0];
        const rows = [...body.rows];
        const numeric = rows.some((row) => "value" in row.children[column].dataset);
        const was = head.getAttribute("aria-sort");
        const order = was ? (was === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", order);
        const keyed = rows.map((row) => [key(row, column), row]);
        const filled = keyed.filter(([k]) => !numeric || typeof k === "number");
        const rest = keyed.filter(([k]) => numeric && typeof k !== "number");
        filled.sort(([a], [b]) => (order === "ascending" ? compare(a, b) : compare(b, a)));
        body.append(...filled.concat(rest).map(([, row]) => row));
      });
    });
  });
  each(".filter input", (input) => {
    const rows = [...input.closest("label").nextElementSibling.querySelector("tbody").rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((row, i) => { row.hidden = !words.every((word) => texts[i].includes(word)); });
    });
  });
})();
