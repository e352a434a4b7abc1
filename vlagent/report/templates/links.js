// A list whose lines all stand in the page. `display(link)` shows what a line stands for, nothing of null;
// `chosen(data)` says of the form's data how to tell which lines, by their own, it asks for.
pane.startLinks = ({ display, chosen }) => {
  const links = [...document.querySelectorAll("#list a")];
  let current = null;

  const addressed = () => links.find((link) => link.getAttribute("href") === location.hash);
  const shown = () => links.filter((link) => !link.parentElement.hidden);

  function show(link, scroll) {
    current = link;
    for (const other of links) {
      if (other === link) other.setAttribute("aria-current", "true");
      else other.removeAttribute("aria-current");
    }
    display(link);
    if (!link) return;
    if (location.hash !== link.getAttribute("href")) history.replaceState(null, "", link.getAttribute("href"));
    if (scroll) {
      link.scrollIntoView({ block: "nearest" });
      pane.toTop();
    }
  }

  function filter() {
    const wanted = chosen(new FormData(pane.form));
    const words = pane.words();
    for (const link of links) {
      const own = link.dataset;
      link.parentElement.hidden = !(wanted(own) && words.every((word) => own.words.includes(word)));
    }
    const left = shown();
    document.getElementById("shown").textContent = left.length + " of " + links.length;
    document.querySelector("nav .none").hidden = left.length > 0;
    if (!left.includes(current)) show(left[0] || null, false);
  }

  function step(by) {
    const left = shown();
    if (left.length) show(pane.neighbour(left, current, by), true);
  }

  pane.start({ filter, open: (link) => show(link, true), step });
  addEventListener("hashchange", () => { if (addressed()) show(addressed(), true); });
  const first = addressed() || links[0] || null;
  filter();
  show(first, false);
};
