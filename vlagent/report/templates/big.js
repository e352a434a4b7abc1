"use strict";
(() => {
  const ROW = 84;   // pixels of a line of the list; page.css has the same
  const SPARE = 12; // lines drawn beyond what is seen
  const KEPT = 24;  // chunks that stay in memory
  const root = document.documentElement;
  const form = document.querySelector(".filters");
  const selects = [...form.querySelectorAll("select")];
  const find = document.getElementById("find");
  const nav = document.querySelector("nav");
  const list = document.getElementById("list");
  const detail = document.getElementById("detail");
  const large = document.getElementById("large");
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

  function fill(article) {
    for (const img of article.querySelectorAll("img[data-picture]")) {
      const key = img.dataset.picture;
      img.src = "pictures/" + key.slice(0, 2) + "/" + key + ".jpg";
      img.removeAttribute("data-picture");
    }
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
    fill(detail);
    if (scroll) {
      const top = document.querySelector(".panes").offsetTop - form.offsetHeight;
      if (scrollY > top) scrollTo(0, top);
    }
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
    const outcomes = new Set(new FormData(form).getAll("outcome").map((name) => items.names.outcome.indexOf(name)));
    const picked = selects.filter((select) => select.value).map((select) => {
      const wanted = items.names[select.name].map((value) => value.split("\n").includes(select.value));
      return [items[select.name], wanted];
    });
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
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
    if (!left.length) return;
    const at = left.indexOf(current);
    show(left[Math.min(left.length - 1, Math.max(0, at + by))], true);
  }

  const addressed = () => {
    const number = Number(location.hash.slice(2)) - 1;
    return location.hash.startsWith("#t") && number >= 0 && number < items.total ? number : -1;
  };

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => items && filter());
  form.addEventListener("reset", () => setTimeout(() => items && filter()));
  nav.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  list.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    show(Number(link.hash.slice(2)) - 1, true);
  });
  addEventListener("hashchange", () => { if (items && addressed() >= 0 && addressed() !== current) show(addressed(), true); });
  addEventListener("resize", () => items && draw());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || large.open || !items) return;
    if (event.key === "Escape") {
      form.reset();
      find.blur();
      return;
    }
    if (event.target.closest("input[type=search], select")) return;
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/") { event.preventDefault(); find.focus(); find.select(); }
  });
  document.addEventListener("mouseover", (event) => {
    const turn = event.target.closest(".turn");
    for (const mark of detail.querySelectorAll(".mark")) {
      mark.classList.toggle("on", Boolean(turn) && mark.dataset.turn === turn.dataset.turn);
    }
  });
  document.addEventListener("click", (event) => {
    const img = event.target.closest(".frame img");
    if (!img || !img.src) return;
    large.querySelector("img").src = img.src;
    large.querySelector("img").alt = img.alt;
    large.showModal();
  });
  large.addEventListener("click", () => large.close());
  new ResizeObserver(() => root.style.setProperty("--bar", form.offsetHeight + "px")).observe(form);

  // the files of data/ call these two
  window.vlagent = {
    items(text) {
      items = JSON.parse(text);
      const first = addressed();
      filter();
      if (first >= 0) show(first, true);
      root.dataset.ready = "true";
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
