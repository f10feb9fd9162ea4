"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const each = (selector, act, within = document) => within.querySelectorAll(selector).forEach(act);
  const value = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  // Packed parts: compressed, and read when they are opened

  const unpack = (element) => {
    const bytes = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  let library;
  const plotly = () => {
    library ??= unpack(document.getElementById("plotly")).then((code) => {
      const script = document.createElement("script");
      script.textContent = code;
      document.head.append(script);
    });
    return library;
  };

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
      hoverlabel: { bgcolor: value("--paper"), bordercolor: value("--line"), font: { color: value("--ink"), size: 12 }, namelength: -1 },
      margin: { l: 48, r: 12, t: layout.annotations ? 20 : 12, b: 40 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: value("--line"), activecolor: value("--muted") },
      showlegend: false,
      dragmode: touch.matches ? false : "zoom",
      uirevision: "kept",
      ...(size ? { ...size, autosize: false } : { autosize: true }),
    };
  };

  const switchedOff = (chart) => {
    const off = new Set();
    each('.legend button[aria-pressed="false"]', (button) => off.add(button.dataset.name), chart.closest("article"));
    return off;
  };

  // A band is seen where there are few, or where its method is looked at; then everything else steps back.
  const opacities = ({ traces, crowded }, focus) =>
    traces.map(({ mode, meta }) => {
      const band = mode === "none";
      if (focus) return meta === focus ? (band ? 0.25 : 1) : band ? 0 : 0.15;
      return band ? (crowded ? 0 : 0.14) : 1;
    });

  const draw = (chart, size = null) => {
    chart.plan ??= JSON.parse(chart.nextElementSibling.textContent);
    const { traces, layout } = chart.plan;
    const off = switchedOff(chart);
    const opacity = opacities(chart.plan, null);
    const shown = traces.map((trace, i) => ({ ...painted(trace), visible: !off.has(trace.meta), opacity: opacity[i] }));
    const first = chart.dataset.drawn !== "yes";
    chart.dataset.drawn = "yes";
    const done = Plotly.react(chart, shown, themed(layout, size), {
      responsive: true, displaylogo: false, displayModeBar: touch.matches ? false : "hover",
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], // none that would send anything anywhere
    });
    if (first && layout.hovermode === "closest") {
      chart.on("plotly_hover", ({ points }) => look(chart.closest("article"), points[0].data.meta));
      chart.on("plotly_unhover", () => look(chart.closest("article"), null));
    }
    return done;
  };

  const look = (article, focus) => {
    if (article.dataset.focus === (focus ?? "")) return;
    article.dataset.focus = focus ?? "";
    each('.chart[data-drawn="yes"]', (chart) => Plotly.restyle(chart, { opacity: opacities(chart.plan, focus) }), article);
  };

  const redraw = (size = () => null) => {
    each(".swatch", paint);
    each('.chart[data-drawn="yes"]', (chart) => draw(chart, size(chart)));
  };
  const paint = (swatch) => { swatch.style.borderTopColor = colour(swatch.dataset.colour); };

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      plotly().then(() => target.isConnected && draw(target));
    }
  }, { rootMargin: "600px" });

  const liveLegend = (legend) => {
    const article = legend.closest("article");
    const buttons = [...legend.querySelectorAll("button")];
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
      each('.chart[data-drawn="yes"]', (chart) => draw(chart), article);
    });
    for (const button of buttons) {
      button.title = "Point at it: see it alone. Click: switch it off or on. Shift-click: this one only.";
      button.addEventListener("pointerenter", ({ pointerType }) => pointerType === "mouse" && look(article, button.dataset.name));
      button.addEventListener("pointerleave", () => look(article, null));
    }
  };

  // Tables

  const key = (row, column) => {
    const cell = row.children[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
    return typeof a === "number" ? -1 : 1;
  };
  const liveTable = (table) => {
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
  };
  const liveFilter = (input) => {
    const rows = [...input.closest("label").nextElementSibling.querySelector("tbody").rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((row, i) => { row.hidden = !words.every((word) => texts[i].includes(word)); });
    });
  };

  // Versions, and long data

  const liveBlock = (block) => {
    const form = block.querySelector(".switches");
    if (!form) return;
    const shown = block.querySelector(".shown");
    const first = shown.innerHTML;
    let versions;
    form.addEventListener("change", async () => {
      versions ??= unpack(block.querySelector(".packed")).then(JSON.parse);
      const { pieces, shown: numbers } = await versions;
      const number = numbers[[...form.querySelectorAll("select")].map((select) => select.value).join("|")];
      shown.innerHTML = number < 0 ? first : pieces[number];
      enliven(shown);
      form.dispatchEvent(new Event("shown"));
    });
  };
  const liveFolded = (details) => {
    details.addEventListener("toggle", async () => {
      const script = details.querySelector(":scope > .packed");
      if (!details.open || !script) return;
      const content = document.createElement("div");
      content.innerHTML = await unpack(script);
      script.replaceWith(content);
      enliven(content);
    });
  };

  const enliven = (within) => {
    each(".swatch", paint, within);
    each(".legend", liveLegend, within);
    each("table.sortable", liveTable, within);
    each(".filter input", liveFilter, within);
    each(".block", liveBlock, within);
    each(".chart", (chart) => near.observe(chart), within);
  };
  enliven(document);
  each("details.folded", liveFolded);

  // One choice for the whole page

  const everywhere = document.createElement("form");
  everywhere.className = "switches";
  everywhere.setAttribute("aria-label", "What all studies show");
  const common = new Map();
  each(".block .switches select", (select) => {
    if (select.dataset.choice !== "scale" && !common.has(select.dataset.choice)) common.set(select.dataset.choice, select);
  });
  common.forEach((select, name) => {
    const label = document.createElement("label");
    const copy = select.cloneNode(true);
    delete copy.dataset.choice;
    label.append(`${name}, everywhere `, copy);
    everywhere.append(label);
    copy.addEventListener("change", () => each(".block .switches select", (other) => {
      if (other.dataset.choice !== name || other.value === copy.value) return;
      other.value = copy.value;
      other.dispatchEvent(new Event("change", { bubbles: true }));
    }));
  });
  if (common.size) document.querySelector("#summary .facts").after(everywhere);

  // Contents that follow the reader

  const contents = document.getElementById("contents");
  const here = document.getElementById("here");
  const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  const follow = () => {
    let current;
    each("main section[id], main article[id]", (part) => {
      if (links.has(part.id) && part.getBoundingClientRect().top < 90) current = part.id;
    });
    each("a[aria-current]", (link) => link.removeAttribute("aria-current"), contents);
    const link = links.get(current ?? "summary");
    link.setAttribute("aria-current", "true");
    here.textContent = current && current !== "summary" ? link.textContent : document.title;
  };
  let due = false;
  addEventListener("scroll", () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; follow(); });
  }, { passive: true });
  follow();
  contents.addEventListener("click", ({ target }) => { if (target.closest("a")) contents.open = false; });
  addEventListener("click", ({ target }) => { if (!contents.contains(target)) contents.open = false; });

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
    if (window.Plotly) each(".chart", (chart) => { near.unobserve(chart); draw(chart); });
    each("table", (table) => { table.style.zoom = Math.min(1, PAPER / (PRINTED * table.scrollWidth || 1)); });
    redraw((chart) => (chart.closest(".single") ? { width: 640, height: 320 } : { width: 325, height: 250 }));
  });
  addEventListener("afterprint", () => {
    if (screen) root.dataset.theme = screen;
    else delete root.dataset.theme;
    each("table", (table) => { table.style.zoom = ""; });
    redraw();
  });
  if (document.querySelector(".chart")) (window.requestIdleCallback ?? setTimeout)(plotly); // for print, and the first chart
})();
