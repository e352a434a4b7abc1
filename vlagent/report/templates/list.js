// What pages with a list beside a detail share.
const pane = (() => {
  const form = document.querySelector(".filters");
  const find = document.getElementById("find");
  const large = document.getElementById("large");

  const words = () => find.value.toLowerCase().split(/\s+/).filter(Boolean);

  // pictures are loaded once they are looked at
  function fill(part, addressOf) {
    for (const img of part.querySelectorAll("img[data-picture]")) {
      img.src = addressOf(img.dataset.picture);
      img.removeAttribute("data-picture");
    }
  }

  function toTop() {
    const top = document.querySelector(".panes").offsetTop - form.offsetHeight;
    if (scrollY > top) scrollTo(0, top);
  }

  // the neighbour of one of the lines that the filters leave
  const neighbour = (left, current, by) => left[Math.min(left.length - 1, Math.max(0, left.indexOf(current) + by))];

  // `filter()` applies the form, `open(link)` shows what a line stands for, `step(by)` walks the lines
  function start({ filter, open, step }) {
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", filter);
    form.addEventListener("reset", () => setTimeout(filter));
    document.getElementById("list").addEventListener("click", (event) => {
      const link = event.target.closest("a");
      if (!link) return;
      event.preventDefault();
      open(link);
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
  }

  document.addEventListener("mouseover", (event) => {
    const turn = event.target.closest(".turn");
    const own = turn && turn.closest("article");
    for (const mark of document.querySelectorAll("article:not([hidden]) .mark")) {
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
  new ResizeObserver(() => document.documentElement.style.setProperty("--bar", form.offsetHeight + "px")).observe(form);

  return { fill, form, neighbour, start, toTop, words };
})();
