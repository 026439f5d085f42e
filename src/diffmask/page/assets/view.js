/* The view of explanations, for the report and the server. No dependency, no request; text is only ever set as text.

   DiffMask.show(container, entry, {depth, onDepth, rivals})  draws one explanation
   DiffMask.report(container, data)                           a list of many, with search, filter and sort, beside it
   What an entry holds is written in diffmask/page/entries.py. */
"use strict";

const DiffMask = (() => {
  const HALF = 0.5; // a unit more likely kept than not is kept, at every depth but the one that was verified
  const MANY = 4000; // elements a part may have before it waits to be opened

  // ---------------------------------------------------------------- small things

  /** Make an element; children are elements or text, and text stays text. */
  function make(tag, settings = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(settings)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "class") element.className = value;
      else if (name.startsWith("--")) element.style.setProperty(name, value);
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  /** Make an SVG element. */
  function draw(tag, settings = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(settings)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const finiteOrNull = (value) => (Number.isFinite(value) ? value : null);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / (values.length || 1);
  const percent = (share) => `${Math.round(100 * share)} %`;
  const plural = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

  /** Write a divergence; what is not finite comes as null. */
  function nats(value) {
    if (value === null || value === undefined) return "∞";
    return value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : value.toFixed(3);
  }

  // ---------------------------------------------------------------- what an entry says

  /** Return an entry as it stands at a depth: a server measures every depth, a saved explanation holds one. */
  const at = (entry, depth) => (entry.at_depths ? { ...entry, ...entry.at_depths[depth] } : entry);

  function keptAt(whole, depth) {
    const entry = at(whole, depth);
    return depth === entry.depth ? entry.kept : entry.scores[depth].map((score) => score > HALF);
  }

  const shareKept = (kept) => mean(kept.map(Number));

  function verdict(entry) {
    if (!entry.verification) return "unknown";
    return entry.verification.within_margin ? "holds" : "breaks";
  }

  const SIGNS = { holds: "✓", breaks: "✗", unknown: "?" };
  const divergence = (entry) => (entry.verification ? entry.verification.divergence ?? Infinity : null);

  /** Leave out the first parts that all names share, such as the name of the model. */
  function shortNames(names) {
    let parts = names.map((name) => name.split("."));
    const number = /^\d+$/; // a bare number is no name
    while (parts.length > 1 && parts.every((part) => part.length > 1 && part[0] === parts[0][0] && !number.test(part[1]))) {
      parts = parts.map((part) => part.slice(1));
    }
    return parts.map((part) => part.join("."));
  }

  // ---------------------------------------------------------------- the card beside the pointer

  let card = null;

  function showTip(target, ...content) {
    if (!card) document.body.append((card = make("div", { class: "dm-tip", role: "tooltip", hidden: true })));
    card.replaceChildren(...content);
    card.hidden = false;
    const box = target.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = card;
    const left = Math.max(8, Math.min(box.left, innerWidth - width - 8));
    const below = box.bottom + 8 + height < innerHeight;
    card.style.left = `${left}px`;
    card.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - height - 8)}px`;
  }

  function hideTip() {
    if (card) card.hidden = true;
  }

  /** Say everything about one unit: its probability at this depth, its rank, and how it goes over depth. */
  function unitTip(target, entry, depth, unit) {
    const scores = entry.scores[depth];
    const kept = keptAt(entry, depth)[unit];
    const rank = 1 + scores.filter((score) => score > scores[unit]).length;
    const steps = entry.scores.map((row, level) =>
      make("i", { "--p": row[unit], class: keptAt(entry, level)[unit] ? "dm-kept" : "" }),
    );
    showTip(
      target,
      make("b", { dir: "auto" }, entry.units[unit]),
      make("span", {}, `${kept ? "kept" : "dropped"}, probability ${scores[unit].toFixed(4)}`),
      make("small", {}, `unit ${unit + 1} of ${scores.length}, rank ${rank} at depth ${depth}`),
      make("div", { class: "dm-steps" }, ...steps),
    );
  }

  // ---------------------------------------------------------------- units of a text

  /** Lay out units as words: pieces of one word stand together. Returns the paragraph and the units in it. */
  function layText(entry) {
    const text = make("div", { class: "dm-text", dir: "auto", role: "list", "aria-label": "units" });
    const units = [];
    let word = null;
    entry.units.forEach((unit, number) => {
      if (!word || !entry.joined[number]) {
        if (word) text.append(" ");
        text.append((word = make("span", { class: "dm-word" })));
      }
      const inner = entry.joined[number] ? " dm-inner" : "";
      units.push(make("span", { class: `dm-unit${inner}`, role: "listitem", "data-unit": number }, unit));
      word.append(units[number]);
    });
    return { text, units };
  }

  /** Colour units by shares in [-1, 1]; a mark for what is kept, dashes for what speaks against. */
  function paint(units, shares, kept, numbers = shares) {
    units.forEach((unit, number) => {
      const share = shares[number];
      unit.style.setProperty("--p", Math.abs(share).toFixed(3));
      unit.dataset.p = String(Math.round(100 * numbers[number]));
      unit.classList.toggle("dm-kept", Boolean(kept && kept[number]));
      unit.classList.toggle("dm-against", share < 0);
    });
  }

  // ---------------------------------------------------------------- patches of an image

  /** Show a picture whose patches fade with the chance of being dropped; kept ones have an outline. */
  function layPicture(entry) {
    const [rows, columns] = entry.grid;
    const canvas = make("canvas", { width: columns, height: rows });
    const overlay = draw("svg", { viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none" });
    const picture = make("div", { class: "dm-picture", "--ratio": `${columns} / ${rows}`, role: "img" });
    if (entry.picture) {
      const image = make("img", { src: entry.picture, alt: "" });
      image.addEventListener("load", () => {
        picture.style.setProperty("--ratio", `${image.naturalWidth} / ${image.naturalHeight}`);
        picture.classList.toggle("dm-sharp", image.naturalWidth < 128); // enlarged, small pictures show their pixels
      });
      picture.append(image);
    }
    picture.append(canvas, overlay);
    return { picture, canvas, overlay };
  }

  function paintPicture({ picture, canvas, overlay }, entry, shares, kept) {
    const [rows, columns] = entry.grid;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(columns, rows);
    shares.forEach((share, patch) => {
      const fade = 1 - Math.max(0, Math.min(1, share));
      pixels.data.set([238, 236, 230, Math.round(255 * 0.88 * fade)], 4 * patch);
    });
    context.putImageData(pixels, 0, 0);
    const path = outline(kept || [], rows, columns);
    const made = [draw("path", { class: "dm-outline-under", d: path }), draw("path", { class: "dm-outline", d: path })];
    overlay.replaceChildren(...(path ? made : []));
    picture.setAttribute("aria-label", `${(kept || []).filter(Boolean).length} of ${shares.length} patches kept`);
  }

  /** Draw the border between patches that are kept and those that are not. */
  function outline(kept, rows, columns) {
    const at = (row, column) => row >= 0 && column >= 0 && row < rows && column < columns && kept[row * columns + column];
    const lines = [];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        if (!at(row, column)) continue;
        if (!at(row - 1, column)) lines.push(`M${column} ${row}h1`);
        if (!at(row + 1, column)) lines.push(`M${column} ${row + 1}h1`);
        if (!at(row, column - 1)) lines.push(`M${column} ${row}v1`);
        if (!at(row, column + 1)) lines.push(`M${column + 1} ${row}v1`);
      }
    }
    return lines.join("");
  }

  function patchUnder(event, picture, [rows, columns]) {
    const box = picture.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    return row >= 0 && column >= 0 && row < rows && column < columns ? row * columns + column : null;
  }

  // ---------------------------------------------------------------- the head: prediction and check

  function fact(name, value, more, bad = false) {
    const said = more ? make("small", { class: bad ? "dm-bad" : null }, more) : null;
    return make("div", { class: "dm-fact" }, make("span", {}, name), make("b", { dir: "auto" }, value), said);
  }

  function head(entry) {
    const checked = entry.verification;
    const count = entry.kept.filter(Boolean).length;
    const facts = [
      fact("prediction", entry.prediction ?? "not measured"),
      checked && checked.same_prediction !== null && checked.same_prediction !== undefined
        ? fact("on the kept units alone", checked.masked_prediction ?? "?", checked.same_prediction ? "the same" : "✗ another", !checked.same_prediction)
        : null,
      fact("kept", `${count} of ${entry.kept.length}`, `at depth ${entry.depth}`),
      check(entry),
    ];
    return make("section", { class: "dm-head" }, ...facts.filter(Boolean));
  }

  function check(entry) {
    const checked = entry.verification;
    if (!checked) {
      const more = "The model was not run on the kept units alone, so nothing is claimed.";
      return make("div", { class: "dm-check dm-unknown" }, make("p", {}, "? not verified"), make("small", {}, more));
    }
    const state = verdict(entry);
    const said = state === "holds" ? `holds${entry.certified ? ", certified" : ""}` : "breaks the margin";
    const compared = state === "holds" ? "≤" : ">";
    const end = Math.max(checked.margin * 1.5, (checked.divergence ?? checked.margin * 3) * 1.05) || 1;
    const gauge = make(
      "div",
      { class: "dm-gauge", "--at": Math.min(1, (checked.divergence ?? end) / end), "--limit": checked.margin / end },
      make("i"),
      make("u"),
    );
    const measured = `divergence ${nats(checked.divergence)} ${compared} margin ${checked.margin} (${checked.measure}), measured`;
    return make("div", { class: `dm-check dm-${state}` }, make("p", {}, `${SIGNS[state]} ${said}`), gauge, make("small", {}, measured));
  }

  // ---------------------------------------------------------------- the slider over depth

  function depthPart(entry, move) {
    const names = shortNames(entry.depths);
    const last = entry.depths.length - 1;
    const label = make("span", { class: "dm-depth-name", "aria-live": "polite" });
    const note = make("span", { class: "dm-depth-note" });
    const slider = make("input", {
      type: "range", class: "dm-slider", min: 0, max: last, step: 1, "aria-label": "depth",
      oninput: () => move(Number(slider.value)),
    });
    slider.style.width = `calc(${(100 * last) / (last + 1)}% + 18px)`;
    const shares = entry.depths.map((_, depth) => shareKept(keptAt(entry, depth)));
    const top = Math.max(...shares) || 1;
    const bars = shares.map((share, depth) =>
      make(
        "button",
        { type: "button", tabindex: -1, "aria-label": `depth ${depth}, keeps ${percent(share)}`, title: entry.depths[depth], onclick: () => move(depth) },
        shares.length <= 16 ? percent(share).replace(" ", "\u202f") : null,
        make("i", { "--share": share / top }),
      ),
    );
    const part = make(
      "section",
      { class: "dm-depth" },
      make("div", { class: "dm-depth-line" }, label, note),
      last ? make("div", { class: "dm-bars" }, ...bars) : null,
      last ? slider : null,
    );
    const set = (depth) => {
      slider.value = depth;
      slider.setAttribute("aria-valuetext", `depth ${depth}, ${names[depth]}`);
      label.replaceChildren(`Depth ${depth} of ${last}`, make("code", {}, names[depth]));
      const kept = keptAt(entry, depth).filter(Boolean).length;
      const { depth: chosen, verification } = at(entry, depth);
      const here = depth === chosen ? (verification ? "verified here" : "explained here") : `verified only at depth ${chosen}`;
      note.textContent = `keeps ${kept} of ${entry.units.length} · ${verification || depth === chosen ? here : "not verified"}`;
      bars.forEach((bar, number) => bar.setAttribute("aria-current", number === depth));
    };
    return { part, set };
  }

  // ---------------------------------------------------------------- one depth: the text or the image

  function textPart(entry, state) {
    const { text, units } = layText(entry);
    const find = (event) => event.target.closest?.(".dm-unit");
    const tip = (unit) => unitTip(unit, entry, state.depth, Number(unit.dataset.unit));
    text.addEventListener("pointerover", (event) => find(event) && tip(find(event)));
    text.addEventListener("pointerleave", hideTip);
    text.addEventListener("focusin", (event) => find(event) && tip(find(event)));
    text.addEventListener("focusout", hideTip);
    units[0].tabIndex = 0; // one stop for the tab key; Shift and the arrows move among the units
    const step = (by) => {
      const now = Math.max(0, units.indexOf(document.activeElement));
      const next = units[Math.max(0, Math.min(units.length - 1, document.activeElement === units[now] ? now + by : 0))];
      units.forEach((unit) => unit.removeAttribute("tabindex"));
      next.tabIndex = 0;
      next.focus();
    };
    const part = make("section", {}, text, legend(entry));
    const set = (depth) => {
      const kept = keptAt(entry, depth);
      paint(units, entry.scores[depth], kept);
      units.forEach((unit, number) => unit.setAttribute("aria-label", `${entry.units[number]}, ${kept[number] ? "kept" : "dropped"}, ${unit.dataset.p} percent`));
    };
    return { part, set, step };
  }

  function legend() {
    const sample = (share, kept, text) => make("span", { class: `dm-unit${kept ? " dm-kept" : ""}`, "--p": share }, text);
    const box = make("input", { type: "checkbox", class: "dm-numbers-box" });
    box.addEventListener("change", () => box.closest(".dm-view").classList.toggle("dm-numbers", box.checked));
    return make(
      "div",
      { class: "dm-legend" },
      make("span", {}, sample(0.95, true, "kept"), " bold"),
      make("span", {}, sample(0.1, false, "dropped"), " grey"),
      make("span", {}, "bar and tint: probability of being kept"),
      make("label", { class: "dm-push" }, box, "numbers, in %"),
    );
  }

  function imagePart(entry, state) {
    const laid = layPicture(entry);
    const said = make("figcaption", { "aria-live": "polite" }, "Point at a patch for its number.");
    const smooth = make("input", { type: "checkbox" });
    const only = make("input", { type: "checkbox" });
    smooth.addEventListener("change", () => laid.picture.classList.toggle("dm-smooth", smooth.checked));
    only.addEventListener("change", () => set(state.depth));
    laid.picture.addEventListener("pointermove", (event) => {
      const patch = patchUnder(event, laid.picture, entry.grid);
      if (patch === null) return;
      const [row, column] = [Math.floor(patch / entry.grid[1]), patch % entry.grid[1]];
      const kept = keptAt(entry, state.depth)[patch];
      said.textContent = `row ${row + 1}, column ${column + 1}: ${kept ? "kept" : "dropped"}, probability ${entry.scores[state.depth][patch].toFixed(4)}`;
    });
    const original = entry.picture ? make("figure", {}, make("div", { class: "dm-picture", "--ratio": `${entry.grid[1]} / ${entry.grid[0]}` }, make("img", { src: entry.picture, alt: "the image" })), make("figcaption", {}, "the image")) : null;
    if (original) {
      const image = original.querySelector("img");
      image.addEventListener("load", () => {
        original.firstChild.style.setProperty("--ratio", `${image.naturalWidth} / ${image.naturalHeight}`);
        original.firstChild.classList.toggle("dm-sharp", image.naturalWidth < 128);
      });
    }
    const key = make(
      "div",
      { class: "dm-legend" },
      make("span", {}, "outline: kept; the paler, the less likely kept"),
      make("label", { class: "dm-push" }, only, "kept only"),
      make("label", {}, smooth, "smooth"),
    );
    const part = make("section", {}, make("div", { class: "dm-imagery" }, make("figure", {}, laid.picture, said), original), key);
    const set = (depth) => {
      const kept = keptAt(entry, depth);
      paintPicture(laid, entry, only.checked ? kept.map(Number) : entry.scores[depth], kept);
    };
    return { part, set, step: () => {} };
  }

  // ---------------------------------------------------------------- all depths, rivals, settings

  /** Make a part that is only drawn when it is opened, or at once where it is small. */
  function folded(title, size, build) {
    const part = make("details", { class: "dm-more", open: size <= MANY }, make("summary", {}, title));
    const fill = () => part.open && part.childElementCount === 1 && part.append(...build());
    part.addEventListener("toggle", fill);
    fill();
    return make("section", {}, part);
  }

  function matrix(entry, move) {
    const names = shortNames(entry.depths);
    const heads = entry.units.map((unit, number) =>
      make("th", { scope: "col", class: entry.kept[number] ? "dm-kept" : "" }, make("span", { dir: "auto" }, (entry.joined[number] ? "-" : "") + unit)),
    );
    const rows = entry.scores.map((row, depth) => {
      const kept = keptAt(entry, depth);
      const cells = row.map((score, unit) => make("td", { "--p": score, class: kept[unit] ? "dm-kept" : "" }, String(Math.round(100 * score))));
      return make("tr", { "data-depth": depth, onclick: () => move(depth) }, make("th", { scope: "row" }, names[depth]), ...cells);
    });
    const table = make("table", { class: "dm-matrix" }, make("thead", {}, make("tr", {}, make("td"), ...heads)), make("tbody", {}, ...rows));
    return [make("div", { class: "dm-scroll", tabindex: 0, role: "region", "aria-label": "all depths" }, table)];
  }

  function multiples(entry, move) {
    const names = shortNames(entry.depths);
    const figures = entry.depths.map((_, depth) => {
      const laid = layPicture(entry);
      paintPicture(laid, entry, entry.scores[depth], keptAt(entry, depth));
      const said = `${names[depth]}, ${percent(shareKept(keptAt(entry, depth)))} kept`;
      return make("figure", { "data-depth": depth, onclick: () => move(depth) }, laid.picture, make("figcaption", {}, said));
    });
    return [make("div", { class: "dm-multiples" }, ...figures)];
  }

  function allDepths(entry, move) {
    const build = () => (entry.grid ? multiples(entry, move) : matrix(entry, move));
    return folded("All depths at once", entry.units.length * entry.depths.length, build);
  }

  function rivalsPart(entry) {
    const ours = {
      method: "DiffMask probe", shares: entry.scores[entry.depth], scores: entry.scores[entry.depth], kept: entry.kept,
      divergence: entry.verification?.divergence, same_prediction: entry.verification?.same_prediction, checked: Boolean(entry.verification),
    };
    const lines = [ours, ...entry.rivals.map((rival) => ({ ...rival, checked: rival.divergence !== undefined && rival.divergence !== null }))];
    const note = "Each rival's scores are scaled to its largest. Bold: what it would keep, as many units as the probe does. Dashes: it speaks against the prediction. The divergence is measured on those units alone.";
    return folded("Rivals side by side", lines.length * entry.units.length, () => [
      entry.grid ? make("div", { class: "dm-multiples" }, ...lines.map((line) => rivalPicture(entry, line))) : make("div", { class: "dm-rivals" }, ...lines.map((line) => rivalLine(entry, line))),
      make("p", { class: "dm-note" }, note),
    ]);
  }

  function outcome(line) {
    if (!line.checked) return make("div", {}, "not measured");
    const changed = line.same_prediction === false ? make("div", { class: "dm-bad" }, "✗ prediction changes") : null;
    return make("div", {}, `divergence ${nats(line.divergence)}`, changed);
  }

  function rivalLine(entry, line) {
    const { text, units } = layText(entry);
    paint(units, line.shares, line.kept);
    text.addEventListener("pointerover", (event) => {
      const unit = event.target.closest?.(".dm-unit");
      if (unit) showTip(unit, make("b", { dir: "auto" }, unit.textContent), make("span", {}, `${line.method}: ${line.scores[unit.dataset.unit]}`));
    });
    text.addEventListener("pointerleave", hideTip);
    return make("div", { class: "dm-rival" }, make("div", { class: "dm-rival-name" }, make("b", {}, line.method), outcome(line)), text);
  }

  function rivalPicture(entry, line) {
    const laid = layPicture(entry);
    paintPicture(laid, entry, line.shares, line.kept);
    return make("figure", {}, laid.picture, make("figcaption", {}, make("b", {}, line.method), outcome(line)));
  }

  function pairs(values) {
    const write = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    const rows = Object.entries(values).map(([name, value]) => make("div", {}, make("dt", {}, name.replaceAll("_", " ")), make("dd", {}, write(value))));
    return make("dl", { class: "dm-pairs" }, ...rows);
  }

  function aboutPart(entry) {
    const about = { ...entry.about?.settings, ...entry.about?.versions };
    return Object.keys(about).length ? make("section", {}, make("details", { class: "dm-more", open: true }, make("summary", {}, "Settings and versions"), pairs(about))) : null;
  }

  // ---------------------------------------------------------------- one explanation

  function show(container, entry, { depth = entry.depth, onDepth = null, rivals = true } = {}) {
    hideTip();
    const state = { depth };
    const move = (next) => {
      set(next);
      if (onDepth) onDepth(state.depth);
    };
    const slider = depthPart(entry, move);
    const body = entry.grid ? imagePart(entry, state) : textPart(entry, state);
    const others = [
      entry.depths.length > 1 ? allDepths(entry, move) : null,
      rivals && entry.rivals?.length ? rivalsPart(entry) : null,
      aboutPart(entry),
    ];
    const root = make("article", { class: "dm-view", "aria-label": "explanation" }, head(at(entry, depth)), slider.part, body.part, ...others.filter(Boolean));
    function set(next) {
      state.depth = Math.max(0, Math.min(entry.depths.length - 1, next));
      slider.set(state.depth);
      body.set(state.depth);
      if (entry.at_depths) root.querySelector(".dm-head").replaceWith(head(at(entry, state.depth)));
      root.querySelectorAll("[data-depth]").forEach((row) => row.setAttribute("aria-current", Number(row.dataset.depth) === state.depth));
    }
    root.addEventListener("toggle", () => set(state.depth), true); // a part that was just opened joins in
    const wanted = container.querySelector(".dm-numbers-box")?.checked;
    container.replaceChildren(root);
    set(depth);
    const box = root.querySelector(".dm-numbers-box");
    if (wanted && box) box.click();
    current = { entry, root, move, step: body.step, setDepth: set, get depth() { return state.depth; } };
    return current;
  }

  let current = null; // the explanation the keys speak to

  // ---------------------------------------------------------------- many explanations

  const SORTS = {
    given: { name: "as given", key: (item) => item.number },
    worst: { name: "divergence, highest first", key: (item) => -(item.divergence ?? -1) },
    best: { name: "divergence, lowest first", key: (item) => item.divergence ?? Infinity },
    fewest: { name: "kept, fewest first", key: (item) => item.share },
    longest: { name: "longest first", key: (item) => -item.entry.units.length },
  };
  const FILTERS = {
    all: { name: "all", test: () => true },
    holds: { name: "✓ hold the margin", test: (item) => item.verdict === "holds" },
    breaks: { name: "✗ break the margin", test: (item) => item.verdict === "breaks" },
    changed: { name: "prediction changes", test: (item) => item.entry.verification?.same_prediction === false },
    unknown: { name: "? not verified", test: (item) => item.verdict === "unknown" },
  };
  const ROW = 72; // pixels of a line of the list, as in the style

  /** Know of each entry what the list needs, once. */
  function index(data) {
    return data.entries.map((entry, number) => {
      const whole = { ...entry, about: typeof entry.about === "number" ? data.about[entry.about] : entry.about };
      const text = entry.text || entry.units.join(" ");
      return {
        number, entry: whole, text, verdict: verdict(entry), divergence: divergence(entry), share: shareKept(entry.kept),
        words: `${text} ${entry.prediction ?? ""}`.toLowerCase(),
      };
    });
  }

  function report(container, data) {
    const items = index(data);
    const detail = make("div", { class: "dm-detail" });
    const list = makeList((item) => select(item));
    const finder = makeFinder(items, (shown) => refresh(shown));
    const cloud = makeCloud(items, (item) => select(item));
    let shown = items;
    let chosen = null;
    container.classList.toggle("dm-alone", items.length === 1);
    container.replaceChildren(overview(items, cloud), make("aside", { class: "dm-side", "aria-label": "examples" }, finder.part, list.part), detail);

    function select(item, far = true) {
      chosen = item;
      show(detail, item.entry);
      list.choose(item, far);
      cloud.choose(item);
      try {
        history.replaceState(null, "", `#${item.number + 1}`);
      } catch { /* some browsers refuse it for a file; the page does without */ }
    }
    function refresh(next) {
      shown = next;
      list.fill(shown);
      if (shown.length && !shown.includes(chosen)) select(shown[0], false);
      else if (chosen) list.choose(chosen, false);
    }
    reader = {
      search: finder.search,
      by(step) {
        const now = shown.indexOf(chosen);
        const next = shown[Math.max(0, Math.min(shown.length - 1, now + step))];
        if (next && next !== chosen) select(next);
      },
    };
    const wanted = items[Number(location.hash.slice(1)) - 1]; // before the first is chosen, and its number written there
    refresh(items);
    if (wanted) select(wanted);
  }

  let reader = null; // the list the keys speak to

  function overview(items, cloud) {
    const checked = items.filter((item) => item.verdict !== "unknown");
    const tile = (value, name) => make("div", { class: "dm-tile" }, make("b", {}, value), make("span", {}, name));
    const share = (list, test) => (list.length ? percent(list.filter(test).length / list.length) : "–");
    const average = checked.length ? nats(finiteOrNull(mean(checked.map((item) => item.divergence)))) : "–";
    const decided = checked.filter((item) => typeof item.entry.verification.same_prediction === "boolean");
    return make(
      "div",
      { class: "dm-overview" },
      tile(items.length.toLocaleString("en"), items.length === 1 ? "explanation" : "explanations"),
      tile(share(checked, (item) => item.verdict === "holds"), `hold the margin, of ${checked.length.toLocaleString("en")} verified`),
      tile(share(decided, (item) => item.entry.verification.same_prediction), "keep their prediction"),
      tile(percent(mean(items.map((item) => item.share))), `of units kept · mean divergence ${average}`),
      cloud.part,
    );
  }

  /** Draw every example at (share kept, divergence): dots hold the margin, crosses break it. */
  function makeCloud(items, select) {
    const known = items.filter((item) => Number.isFinite(item.divergence));
    const [wide, high, left, low] = [420, 82, 8, 18];
    const svg = draw("svg", { viewBox: `0 0 ${wide} ${high + low}`, role: "img", "aria-label": "share kept and divergence of every example" });
    const part = make("div", { class: "dm-cloud" }, svg);
    if (known.length < 2) {
      part.replaceChildren(make("p", { class: "dm-note" }, "Too few examples with a finite divergence to draw them against each other."));
      return { part, choose() {} };
    }
    const widest = Math.max(...known.map((item) => item.share)) || 1;
    const top = Math.max(...known.map((item) => Math.max(item.divergence, item.entry.verification.margin))) * 1.1 || 1;
    const x = (item) => left + (item.share / widest) * (wide - 2 * left);
    const y = (value) => high - Math.sqrt(value / top) * (high - 12); // by the root: most divergences are small
    svg.append(draw("line", { class: "dm-axis", x1: left, x2: wide - left, y1: high, y2: high }));
    const margins = new Set(known.map((item) => item.entry.verification.margin));
    if (margins.size === 1) {
      const margin = [...margins][0];
      svg.append(draw("line", { class: "dm-margin-line", x1: left, x2: wide - left, y1: y(margin), y2: y(margin) }));
      svg.append(draw("text", { x: wide - left, y: y(margin) - 3, "text-anchor": "end" }, `margin ${margin}`));
    }
    svg.append(draw("text", { x: left, y: high + 16 }, "few units kept"), draw("text", { x: wide - left, y: high + 16, "text-anchor": "end" }, `${percent(widest)} kept`));
    const beyond = items.filter((item) => item.divergence === Infinity).length;
    svg.append(draw("text", { x: left, y: 8 }, beyond ? `divergence (∞ for ${beyond}, not drawn)` : "divergence"));
    for (const item of known) {
      const [at, up] = [x(item), y(item.divergence)];
      const mark = item.verdict === "holds" ? draw("circle", { class: "dm-dot", cx: at, cy: up, r: 3 }) : draw("path", { class: "dm-cross", d: `M${at - 3} ${up - 3}l6 6m0 -6l-6 6` });
      mark.addEventListener("click", () => select(item));
      svg.append(mark);
    }
    const here = draw("circle", { class: "dm-here", r: 6, cx: -20, cy: -20 });
    svg.append(here);
    const choose = (item) => {
      const there = Number.isFinite(item.divergence);
      here.setAttribute("cx", there ? x(item) : -20);
      here.setAttribute("cy", there ? y(item.divergence) : -20);
    };
    return { part, choose };
  }

  function makeFinder(items, found) {
    const search = make("input", { type: "search", class: "dm-search", placeholder: "Search texts and predictions  /", "aria-label": "search", autocomplete: "off", spellcheck: "false" });
    const counts = (name) => items.filter(FILTERS[name].test).length;
    const filter = make("select", { "aria-label": "filter" }, ...Object.keys(FILTERS).filter((name) => name === "all" || counts(name)).map((name) => make("option", { value: name }, `${FILTERS[name].name} (${counts(name)})`)));
    const sort = make("select", { "aria-label": "sort" }, ...Object.entries(SORTS).map(([name, { name: said }]) => make("option", { value: name }, said)));
    const count = make("div", { class: "dm-count", role: "status" });
    const update = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const shown = items.filter((item) => FILTERS[filter.value].test(item) && words.every((word) => item.words.includes(word)));
      const key = SORTS[sort.value].key;
      shown.sort((one, other) => key(one) - key(other) || one.number - other.number);
      count.textContent = shown.length === items.length ? plural(items.length, "example") : `${shown.length.toLocaleString("en")} of ${plural(items.length, "example")}`;
      found(shown);
    };
    for (const part of [search, filter, sort]) part.addEventListener("input", update);
    count.textContent = plural(items.length, "example");
    return { part: make("div", { class: "dm-finder" }, search, make("div", { class: "dm-row" }, filter, sort), count), search };
  }

  /** List any number of items: only the lines that can be seen exist. */
  function makeList(select) {
    const space = make("div", { role: "listbox", "aria-label": "examples" });
    const part = make("div", { class: "dm-list", tabindex: 0 }, space);
    const rows = new Map();
    let items = [];
    let chosen = null;
    const visible = () => {
      const first = Math.max(0, Math.floor(part.scrollTop / ROW) - 4);
      const last = Math.min(items.length, Math.ceil((part.scrollTop + part.clientHeight) / ROW) + 4);
      for (const [item, row] of rows) {
        const place = row.place;
        if (place < first || place >= last || items[place] !== item) {
          row.element.remove();
          rows.delete(item);
        }
      }
      for (let place = first; place < last; place++) {
        const item = items[place];
        if (rows.has(item)) continue;
        const element = line(item, place, () => select(item));
        element.setAttribute("aria-selected", item === chosen);
        rows.set(item, { element, place });
        space.append(element);
      }
    };
    part.addEventListener("scroll", visible, { passive: true });
    new ResizeObserver(visible).observe(part);
    return {
      part,
      fill(next) {
        items = next;
        rows.clear();
        space.replaceChildren(...(items.length ? [] : [make("p", { class: "dm-empty" }, "Nothing matches. Clear the search or the filter.")]));
        space.style.height = `${items.length * ROW}px`;
        part.scrollTop = 0;
        visible();
      },
      choose(item, bring) {
        chosen = item;
        const top = items.indexOf(item) * ROW;
        if (bring && top >= 0 && (top < part.scrollTop || top + ROW > part.scrollTop + part.clientHeight)) part.scrollTop = top - part.clientHeight / 2 + ROW;
        visible();
        for (const [each, row] of rows) row.element.setAttribute("aria-selected", each === item);
      },
    };
  }

  function line(item, place, onclick) {
    const { entry } = item;
    const lead = entry.picture ? make("img", { src: entry.picture, alt: "", loading: "lazy" }) : make("span", { class: "dm-sign" }, SIGNS[item.verdict]);
    const mark = entry.picture ? `${SIGNS[item.verdict]} ` : "";
    const changed = entry.verification?.same_prediction === false ? " → " + (entry.verification.masked_prediction ?? "?") : "";
    return make(
      "div",
      { class: `dm-item dm-${item.verdict}`, role: "option", onclick, "data-number": item.number, "--place": place },
      lead,
      make(
        "div",
        {},
        make("div", { class: "dm-item-text" }, item.text.slice(0, 160)),
        make("div", { class: "dm-item-facts" }, make("b", {}, `${mark}${entry.prediction ?? "–"}${changed}`), make("span", {}, `${percent(item.share)} kept`), make("span", {}, item.divergence === null ? "" : nats(item.divergence === Infinity ? null : item.divergence))),
      ),
    );
  }

  // ---------------------------------------------------------------- keys and theme

  const THEMES = ["system", "light", "dark"];

  function setTheme(name) {
    document.documentElement.dataset.theme = name;
    const button = document.getElementById("dm-theme");
    if (button) button.textContent = `Theme: ${name}`;
    button?.setAttribute("aria-label", `Theme: ${name}`);
    try {
      localStorage.setItem("diffmask-theme", name);
    } catch { /* a browser may refuse to remember */ }
  }

  function nextTheme() {
    setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % THEMES.length]);
  }

  function keys(event) {
    const typing = event.target.matches?.("input:not([type=range]):not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const actions = {
      j: () => reader?.by(1),
      k: () => reader?.by(-1),
      "/": () => reader?.search.focus(),
      n: () => current?.root.querySelector(".dm-numbers-box")?.click(),
      t: nextTheme,
      "?": () => document.getElementById("dm-help")?.showModal(),
    };
    if (arrow && event.shiftKey) current?.step(arrow);
    else if (arrow) current?.move(current.depth + arrow);
    else if (actions[event.key]) actions[event.key]();
    else return;
    event.preventDefault();
  }

  function start() {
    document.addEventListener("keydown", keys);
    document.addEventListener("scroll", hideTip, { capture: true, passive: true });
    document.getElementById("dm-theme")?.addEventListener("click", nextTheme);
    document.getElementById("dm-keys")?.addEventListener("click", () => document.getElementById("dm-help").showModal());
    let theme = null;
    try {
      theme = localStorage.getItem("diffmask-theme");
    } catch { /* a browser may refuse to remember */ }
    setTheme(THEMES.includes(theme) ? theme : "system");
    const data = document.getElementById("diffmask-data");
    const container = document.getElementById("report");
    if (data && container) report(container, JSON.parse(data.textContent));
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();

  return { show, report, nats, make };
})();
