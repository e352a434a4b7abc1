(() => {
  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  const articles = new Map([...document.querySelectorAll("article")].map((a) => [a.id, a]));
  const selects = [...pane.form.querySelectorAll("select")].map((select) => select.name);

  function display(link) {
    // articles are a1, a2, ... and addresses #t1, #t2, ...: the browser must not scroll to an article by itself
    const id = link && link.getAttribute("href").replace("#t", "a");
    for (const [name, article] of articles) article.hidden = name !== id;
    if (link) pane.fill(articles.get(id), (key) => pictures[key]);
  }

  function chosen(data) {
    const outcomes = data.getAll("outcome");
    const picked = selects.map((name) => [name, data.get(name)]).filter(([, value]) => value);
    return (own) => (!outcomes.length || outcomes.includes(own.outcome))
      && picked.every(([name, value]) => own[name].split("\n").includes(value));
  }

  pane.startLinks({ display, chosen });
})();
