(() => {
  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  const detail = document.getElementById("detail");

  function display(link) {
    detail.replaceChildren();
    if (!link) return;
    const episodes = document.getElementById(link.getAttribute("href").slice(1) + "-episodes");
    if (episodes) detail.append(episodes.content.cloneNode(true));
    else detail.innerHTML = "<p class='none'>The episodes of this question are not on this page; the pages of the runs have them.</p>";
    pane.fill(detail, (key) => pictures[key]);
  }

  function chosen(data) {
    const changes = data.getAll("change");
    const suite = data.get("suite");
    return (own) => (!changes.length || changes.includes(own.change)) && (!suite || own.suite === suite);
  }

  pane.startLinks({ display, chosen });
})();
