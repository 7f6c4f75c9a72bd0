(() => {
  "use strict";
  const page = JSON.parse(document.getElementById("data").textContent);
  const views = {};
  const tip = document.getElementById("tip");

  const made = (name, text, parent) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const said = (value) => page.texts[typeof value === "number" ? value : value.t];

  const filledRow = (row, cells, words, parent) => {
    cells.forEach((cell, place) => {
      const heads = row === "head" || (place === 0 && words > 0);
      const element = made(heads ? "th" : "td", undefined, parent);
      if (heads) element.scope = row === "head" ? "col" : "row";
      if (place >= words) element.className = "number";
      else if (said(cell).length <= 26) element.className = "short";
      made("bdi", said(cell), element);
    });
  };

  const table = (found) => {
    const around = made("div");
    around.className = "scroll";
    around.tabIndex = 0;
    around.setAttribute("role", "region");
    around.setAttribute("aria-label", said(found.title));
    const whole = made("table", undefined, around);
    made("caption", said(found.title), whole);
    const [header, ...rows] = found.cells;
    if (header.some(said)) filledRow("head", header, found.words, made("tr", undefined, made("thead", undefined, whole)));
    const body = made("tbody", undefined, whole);
    for (const row of rows) filledRow("row", row, found.words, made("tr", undefined, body));
    return around;
  };

  const poor = (found, place) => {
    const whole = made("details");
    whole.open = place === 0;
    made("bdi", said(found.title), made("summary", undefined, whole));
    if (said(found.text)) made("bdi", said(found.text), made("blockquote", undefined, whole));
    whole.append(table(found.table));
    return whole;
  };

  const shown = (name, found) => {
    if (found === undefined) return [];
    if (name === "worst") return found.length ? found.map(poor) : [made("p", "Every query has recall 1.")];
    return Array.isArray(found) ? found.map(table) : [table(found)];
  };

  let current = page.chosen;
  const choose = (number) => {
    const part = page.parts[number];
    if (part === undefined || number === current) return;
    current = number;
    for (const each of document.querySelectorAll("[data-follow]")) {
      each.replaceChildren(...shown(each.dataset.follow, part[each.dataset.follow]));
    }
    for (const each of document.querySelectorAll("[data-say]")) {
      const found = part[each.dataset.say];
      each.textContent = found === undefined ? "" : said(found);
    }
    for (const each of document.querySelectorAll("[data-absent]")) {
      each.hidden = part[each.dataset.absent] !== undefined;
    }
    document.getElementById("setting").value = String(number);
    document.getElementById("shown").textContent = `Shown: ${said(part.label)}`;
    for (const view of Object.values(views)) {
      if (view.getState().signals.chosen !== undefined) view.signal("chosen", number).runAsync();
    }
    mark();
    underLoad(part.load);
  };

  const mark = () => {
    for (const row of document.querySelectorAll("tr[data-row]")) {
      row.setAttribute("aria-current", String(Number(row.dataset.row) === current));
    }
  };

  const underLoad = (number) => {
    const select = document.getElementById("load");
    if (select) select.value = String(number);
    for (const name of ["recall-latency", "recall-qps"]) {
      if (views[name]) views[name].signal("load", number).runAsync();
    }
  };

  const tooltip = (_, event, item, value) => {
    if (value === null || value === undefined || value === "" || typeof value !== "object") {
      tip.hidden = true;
      return;
    }
    const list = made("dl");
    for (const [name, text] of Object.entries(value)) {
      made("dt", name, list);
      made("bdi", String(text), made("dd", undefined, list));
    }
    tip.replaceChildren(list);
    tip.hidden = false;
    const room = 14;
    const left = Math.min(event.clientX + room, window.innerWidth - tip.offsetWidth - room);
    const below = event.clientY + room + tip.offsetHeight < window.innerHeight;
    const top = below ? event.clientY + room : event.clientY - tip.offsetHeight - room;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  };

  // A label that is cut to fit has its whole text as a title.
  const titled = (place) => {
    for (const each of place.querySelectorAll(".role-axis-label text")) {
      const item = each.__data__;
      if (!item || item.text === undefined || String(item.text) === each.textContent) continue;
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = String(item.text);
      each.append(title);
      each.style.pointerEvents = "auto";
    }
  };

  const draw = async (place) => {
    const name = place.dataset.chart;
    const spec = page.charts[name];
    if (spec.hconcat === undefined) {
      spec.width = "container";
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    spec.config.legend.disable = Boolean(spec.usermeta && spec.usermeta.engines);
    spec.config.axis.labelLimit = Math.min(260, Math.max(90, place.clientWidth * 0.3));
    const result = await vegaEmbed(place, spec, {
      mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false, tooltip,
    });
    views[name] = result.view;
    titled(place);
    if (name === "recall-latency" || name === "recall-qps") {
      result.view.addEventListener("click", (_, item) => {
        if (item && item.datum && item.datum.n !== undefined) choose(item.datum.n);
      });
    }
  };

  const save = async (name) => {
    const bytes = Uint8Array.from(atob(page.files[name]), (each) => each.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const link = made("a");
    link.href = URL.createObjectURL(await new Response(unpacked).blob());
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-choose], [data-file]");
    if (!button) return;
    if (button.dataset.file) save(button.dataset.file);
    else choose(Number(button.dataset.choose));
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "setting") choose(Number(event.target.value));
    if (event.target.id === "load") underLoad(Number(event.target.value));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") tip.hidden = true;
  });

  mark();
  const places = [...document.querySelectorAll("[data-chart]")];
  Promise.all(places.map(draw)).then(
    () => { document.documentElement.dataset.drawn = String(Math.round(performance.now())); },
    (problem) => { document.documentElement.dataset.problem = String(problem); throw problem; },
  );
})();
