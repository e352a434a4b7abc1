(() => {
  const ROW = 84;   // pixels of a line of the list; page.css has the same
  const SPARE = 12; // lines drawn beyond what is seen
  const KEPT = 24;  // chunks that stay in memory
  const selects = [...pane.form.querySelectorAll("select")];
  const nav = document.querySelector("nav");
  const list = document.getElementById("list");
  const detail = document.getElementById("detail");
  const chunks = new Map();  // number -> a promise of its articles
  const waiting = new Map(); // number -> what to call with them
  let items = null;
  let left = [];      // numbers of the items that the filters leave, from 0
  let current = -1;

  function load(name) {
    const script = document.createElement("script");
    script.src = "data/" + name + ".js";
    script.addEventListener("load", () => script.remove());
    document.head.append(script);
    return script;
  }

  function chunk(number) {
    if (chunks.has(number)) return chunks.get(number);
    const come = new Promise((resolve, reject) => {
      waiting.set(number, resolve);
      load("chunk-" + number).addEventListener("error", () => { chunks.delete(number); reject(new Error("chunk " + number)); });
    });
    chunks.set(number, come);
    if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value);
    return come;
  }

  async function show(number, scroll) {
    current = number;
    draw();
    if (number < 0) { detail.replaceChildren(); return; }
    const address = "#t" + (number + 1);
    if (location.hash !== address) history.replaceState(null, "", address);
    if (scroll) reveal(number);
    let article = null;
    try {
      article = (await chunk(Math.floor(number / items.chunk)))[number % items.chunk];
    } catch {
      article = "<p class='none'>The file of this trajectory cannot be read: keep index.html and data together.</p>";
    }
    if (current !== number) return;
    detail.innerHTML = article;
    pane.fill(detail, (key) => "pictures/" + key.slice(0, 2) + "/" + key + ".jpg");
    if (scroll) pane.toTop();
  }

  function reveal(number) {
    const at = left.indexOf(number) * ROW;
    if (at < 0) return;
    if (at < nav.scrollTop) nav.scrollTop = at;
    else if (at + ROW > nav.scrollTop + nav.clientHeight) nav.scrollTop = at + ROW - nav.clientHeight;
    draw();
  }

  function line(place) {
    const number = left[place];
    const entry = document.createElement("li");
    entry.style.top = place * ROW + "px";
    const link = document.createElement("a");
    link.href = "#t" + (number + 1);
    if (number === current) link.setAttribute("aria-current", "true");
    const dot = document.createElement("span");
    dot.className = "dot " + items.names.outcome[items.outcome[number]];
    dot.setAttribute("role", "img");
    dot.setAttribute("aria-label", items.labels[items.outcome[number]]);
    const said = document.createElement("span");
    said.className = "line";
    said.dir = "auto";
    said.textContent = items.question[number];
    const small = document.createElement("span");
    small.className = "muted small";
    small.textContent = items.small[number];
    link.append(dot, said, small);
    entry.append(link);
    return entry;
  }

  function draw() {
    const first = Math.max(0, Math.floor(nav.scrollTop / ROW) - SPARE);
    const last = Math.min(left.length, Math.ceil((nav.scrollTop + nav.clientHeight) / ROW) + SPARE);
    const lines = [];
    for (let place = first; place < last; place++) lines.push(line(place));
    list.replaceChildren(...lines);
  }

  function filter() {
    const outcomes = new Set(new FormData(pane.form).getAll("outcome").map((name) => items.names.outcome.indexOf(name)));
    const picked = selects.filter((select) => select.value).map((select) => {
      const wanted = items.names[select.name].map((value) => value.split("\n").includes(select.value));
      return [items[select.name], wanted];
    });
    const words = pane.words();
    left = [];
    for (let number = 0; number < items.total; number++) {
      if (outcomes.size && !outcomes.has(items.outcome[number])) continue;
      if (picked.some(([column, wanted]) => !wanted[column[number]])) continue;
      if (words.length && !words.every((word) => items.words[number].includes(word))) continue;
      left.push(number);
    }
    list.style.height = left.length * ROW + "px";
    document.getElementById("shown").textContent = left.length.toLocaleString("en") + " of " + items.total.toLocaleString("en");
    document.querySelector("nav .none").hidden = left.length > 0;
    nav.scrollTop = Math.min(nav.scrollTop, left.length * ROW);
    if (!left.includes(current)) show(left.length ? left[0] : -1, false);
    else draw();
  }

  function step(by) {
    if (left.length) show(pane.neighbour(left, current, by), true);
  }

  const addressed = () => {
    const number = Number(location.hash.slice(2)) - 1;
    return location.hash.startsWith("#t") && number >= 0 && number < items.total ? number : -1;
  };

  pane.start({
    filter: () => items && filter(),
    open: (link) => show(Number(link.hash.slice(2)) - 1, true),
    step,
  });
  nav.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  addEventListener("hashchange", () => { if (items && addressed() >= 0 && addressed() !== current) show(addressed(), true); });
  addEventListener("resize", () => items && draw());

  // the files of data/ call these two
  window.vlagent = {
    items(text) {
      items = JSON.parse(text);
      const first = addressed();
      filter();
      if (first >= 0) show(first, true);
      document.documentElement.dataset.ready = "true";
    },
    chunk(number, articles) {
      const resolve = waiting.get(number);
      waiting.delete(number);
      if (resolve) resolve(articles);
    },
  };
  load("items").addEventListener("error", () => {
    detail.innerHTML = "<p class='none'>data/items.js cannot be read: keep index.html and data together.</p>";
  });
})();
