"use strict";
(() => {
  const root = document.documentElement;
  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  const links = [...document.querySelectorAll("#list a")];
  const form = document.querySelector(".filters");
  const find = document.getElementById("find");
  const detail = document.getElementById("detail");
  const large = document.getElementById("large");
  let current = null;

  const shown = () => links.filter((link) => !link.parentElement.hidden);
  const addressed = () => links.find((link) => link.getAttribute("href") === location.hash);

  function show(link, scroll) {
    current = link;
    for (const other of links) {
      if (other === link) other.setAttribute("aria-current", "true");
      else other.removeAttribute("aria-current");
    }
    detail.replaceChildren();
    if (!link) return;
    const address = link.getAttribute("href");
    const episodes = document.getElementById(address.slice(1) + "-episodes");
    if (episodes) detail.append(episodes.content.cloneNode(true));
    else detail.innerHTML = "<p class='none'>The episodes of this question are not on this page; the pages of the runs have them.</p>";
    for (const img of detail.querySelectorAll("img[data-picture]")) img.src = pictures[img.dataset.picture];
    if (location.hash !== address) history.replaceState(null, "", address);
    if (scroll) {
      link.scrollIntoView({ block: "nearest" });
      const top = document.querySelector(".panes").offsetTop - form.offsetHeight;
      if (scrollY > top) scrollTo(0, top);
    }
  }

  function filter() {
    const data = new FormData(form);
    const changes = data.getAll("change");
    const suite = data.get("suite");
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const link of links) {
      const own = link.dataset;
      link.parentElement.hidden = Boolean((changes.length && !changes.includes(own.change)) || (suite && own.suite !== suite)
        || !words.every((word) => own.words.includes(word)));
    }
    const left = shown();
    document.getElementById("shown").textContent = left.length + " of " + links.length;
    document.querySelector("nav .none").hidden = left.length > 0;
    if (!left.includes(current)) show(left[0] || null, false);
  }

  function step(by) {
    const left = shown();
    if (left.length) show(left[Math.min(left.length - 1, Math.max(0, left.indexOf(current) + by))], true);
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
  addEventListener("hashchange", () => { if (addressed()) show(addressed(), true); });
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
    const own = turn && turn.closest("section");
    for (const mark of detail.querySelectorAll(".mark")) {
      mark.classList.toggle("on", Boolean(turn) && own.contains(mark) && mark.dataset.turn === turn.dataset.turn);
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
  const first = addressed() || links[0] || null;
  filter();
  show(first, false);
})();
