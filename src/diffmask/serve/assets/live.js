/* The live page: what is typed or dropped goes to the server, and its answer is drawn by the view of the report.
   Text is only ever set as text. One question is open at a time: a newer one calls the older one off. */
"use strict";

(() => {
  const { make, show } = DiffMask;
  const PAUSE = 300; // milliseconds after the last key before the text is sent
  const EXAMPLES = ["A fast, funny, highly enjoyable movie.", "Not bad at all, though it drags in the middle.", "I wanted to like it, but the plot is dull."];
  const REMEMBERED = "diffmask-token";

  const state = { text: null, image: null, margin: null, depth: null, open: null, timer: null };
  let info = null;
  const parts = {};

  // ---------------------------------------------------------------- asking

  /** Take the token out of the address, where it would stay in view and in the history. */
  function readToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    try {
      if (given) sessionStorage.setItem(REMEMBERED, given);
      if (given) history.replaceState(null, "", location.pathname);
      return given ?? sessionStorage.getItem(REMEMBERED);
    } catch {
      return given; // a browser may refuse to remember
    }
  }
  const token = readToken();

  async function ask(path, question, signal) {
    const headers = { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(question ? { "Content-Type": "application/json" } : {}) };
    const answer = await fetch(path, { method: question ? "POST" : "GET", headers, body: question && JSON.stringify(question), signal });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.error ?? `the server answered ${answer.status}`);
    return said;
  }

  const question = () => ({
    ...(state.image ? { image: state.image } : { text: state.text }),
    ...(state.margin === null ? {} : { certify: true, margin: state.margin }),
  });

  async function explain() {
    clearTimeout(state.timer);
    state.open?.abort();
    if (!state.image && !state.text) return;
    const open = (state.open = new AbortController());
    const began = performance.now();
    say("explaining …");
    try {
      const entry = await ask("entry", question(), open.signal);
      if (open !== state.open) return;
      draw(entry);
      const cut = entry.cut ? ` The last ${entry.cut} tokens are more than the model takes: they are not explained.` : "";
      say(`${entry.depths.length} depths explained and checked in ${Math.round(performance.now() - began)} ms.${cut}`);
    } catch (error) {
      if (error.name !== "AbortError") say(error.message, true);
    }
  }

  function soon() {
    clearTimeout(state.timer);
    state.timer = setTimeout(explain, PAUSE);
  }

  // ---------------------------------------------------------------- showing

  function draw(entry) {
    const depth = Math.min(state.depth ?? entry.depth, entry.depths.length - 1);
    show(parts.answer, entry, { depth, onDepth: (next) => (state.depth = next) });
  }

  function say(text, wrong = false) {
    parts.status.textContent = text;
    parts.status.classList.toggle("live-wrong", wrong);
  }

  // ---------------------------------------------------------------- the margin

  /** Spread the slider over margins from a hundredth to fifty times the one the probe was fitted to. */
  const STEPS = 100;
  const marginAt = (step) => Number((info.margin * 10 ** (-2 + (step / STEPS) * Math.log10(5000))).toPrecision(2));
  const OWN = Math.round((2 / Math.log10(5000)) * STEPS);

  function marginPart() {
    const box = make("input", { type: "checkbox", id: "live-repair" });
    const slider = make("input", { type: "range", class: "dm-slider", id: "live-margin", min: 0, max: STEPS, value: OWN, "aria-label": "margin" });
    const said = make("output", { for: "live-margin" });
    const update = (send = true) => {
      state.margin = box.checked ? marginAt(Number(slider.value)) : null;
      said.textContent = `${state.margin ?? info.margin} nats`;
      slider.setAttribute("aria-valuetext", said.textContent);
      if (send) soon();
    };
    box.addEventListener("change", () => update());
    slider.addEventListener("input", () => {
      box.checked = true;
      update();
    });
    slider.addEventListener("keydown", (event) => event.stopPropagation()); // the view's arrow keys move the depth
    update(false);
    const label = make("label", { for: "live-repair" }, box, " keep as few units as hold a margin of ");
    return make("div", { class: "live-margin" }, label, slider, said);
  }

  // ---------------------------------------------------------------- what is explained

  function textPart() {
    const area = (id, says) => make("textarea", { id, rows: 3, dir: "auto", placeholder: `${says} …`, "aria-label": says, maxlength: info.limits.characters, spellcheck: "false" });
    const areas = info.pairs ? [area("live-first", "The first text, such as a question"), area("live-text", "The second text")] : [area("live-text", "Type a text")];
    const take = () => {
      const texts = areas.map((each) => each.value);
      state.text = !texts.every((text) => text.trim()) ? null : info.pairs ? texts : texts[0];
      soon();
    };
    areas.forEach((each) => each.addEventListener("input", take));
    if (info.pairs) return make("div", {}, ...areas);
    const put = (text) => {
      areas[0].value = text;
      take();
    };
    const examples = EXAMPLES.map((text) => make("button", { type: "button", class: "dm-quiet", onclick: () => put(text) }, text));
    put(EXAMPLES[0]);
    return make("div", {}, ...areas, make("div", { class: "live-examples" }, ...examples));
  }

  function imagePart() {
    const input = make("input", { type: "file", id: "live-image", accept: "image/*", "aria-label": "image" });
    const zone = make("div", { class: "live-drop" }, make("p", {}, "Drop an image here, or choose one:"), input);
    input.addEventListener("change", () => input.files[0] && readImage(input.files[0]));
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("live-over");
    });
    zone.addEventListener("dragleave", () => zone.classList.remove("live-over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("live-over");
      if (event.dataTransfer.files[0]) readImage(event.dataTransfer.files[0]);
    });
    return zone;
  }

  function readImage(file) {
    if (file.size * 1.4 > info.limits.body) return say(`${file.name} is too large: it may have ${Math.floor(info.limits.body / 1.4 / 1e6)} MB`, true);
    const reader = new FileReader();
    reader.addEventListener("load", () => {
      state.image = reader.result;
      explain();
    });
    reader.addEventListener("error", () => say(`${file.name} cannot be read`, true));
    reader.readAsDataURL(file);
  }

  // ---------------------------------------------------------------- start

  async function start() {
    const live = document.getElementById("live");
    parts.status = make("p", { class: "live-status", role: "status" });
    parts.answer = make("div", { id: "live-answer" });
    live.replaceChildren(parts.status, parts.answer);
    try {
      info = await ask("info");
    } catch (error) {
      return say(error.message, true);
    }
    const about = make("p", { class: "live-about" }, `${info.model}, probe on ${info.kind === "input" ? "its input" : "its hidden states"}, fitted to a margin of ${info.margin} nats (${info.measure})`);
    const asked = make("section", { class: "live-ask" }, about, info.takes === "image" ? imagePart() : textPart(), marginPart());
    live.replaceChildren(asked, parts.status, parts.answer);
  }

  start();
})();
