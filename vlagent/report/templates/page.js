"use strict";
(() => {
  const root = document.documentElement;
  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  const links = [...document.querySelectorAll("#list a")];
  const articles = new Map([...document.querySelectorAll("article")].map((a) => [a.id, a]));
  const form = document.querySelector(".filters");
  const selects = [...form.querySelectorAll("select")];
  const find = document.getElementById("find");
  const large = document.getElementById("large");
  let current = null;

  // articles are a1, a2, ... and addresses #t1, #t2, ...: the browser must not scroll to an article by itself
  const idOf = (link) => link.getAttribute("href").replace("#t", "a");
  const linkOfAddress = () => links.find((link) => link.getAttribute("href") === location.hash);
  const shown = () => links.filter((link) => !link.parentElement.hidden);

  function fill(article) {
    for (const img of article.querySelectorAll("img[data-picture]")) {
      img.src = pictures[img.dataset.picture];
      img.removeAttribute("data-picture");
    }
  }

  function show(link, scroll) {
    current = link;
    for (const other of links) {
      if (other === link) other.setAttribute("aria-current", "true");
      else other.removeAttribute("aria-current");
    }
    const id = link ? idOf(link) : null;
    for (const [name, article] of articles) article.hidden = name !== id;
    if (!link) return;
    fill(articles.get(id));
    if (location.hash !== link.getAttribute("href")) history.replaceState(null, "", link.getAttribute("href"));
    if (scroll) {
      link.scrollIntoView({ block: "nearest" });
      const top = document.querySelector(".panes").offsetTop - form.offsetHeight;
      if (scrollY > top) scrollTo(0, top);
    }
  }

  function matches(link, words, values) {
    const data = link.dataset;
    if (values.outcome.length && !values.outcome.includes(data.outcome)) return false;
    if (values.picked.some(([name, value]) => !data[name].split("\n").includes(value))) return false;
    return words.every((word) => data.words.includes(word));
  }

  function filter() {
    const data = new FormData(form);
    const picked = selects.map((select) => [select.name, select.value]).filter(([, value]) => value);
    const values = { outcome: data.getAll("outcome"), picked };
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const link of links) link.parentElement.hidden = !matches(link, words, values);
    const left = shown();
    document.getElementById("shown").textContent = left.length + " of " + links.length;
    document.querySelector("nav .none").hidden = left.length > 0;
    if (!left.includes(current)) show(left[0] || null, false);
  }

  function step(by) {
    const left = shown();
    if (!left.length) return;
    const at = left.indexOf(current);
    show(left[Math.min(left.length - 1, Math.max(0, at + by))], true);
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  document.getElementById("list").addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    show(link, true);
  });
  addEventListener("hashchange", () => {
    const link = linkOfAddress();
    if (link) show(link, true);
  });

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || large.open) return;
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
    for (const mark of document.querySelectorAll("article:not([hidden]) .mark")) {
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
  const first = linkOfAddress() || links[0] || null;
  filter();
  show(first, false);
})();
