// One person at work: own questions, blind reviews of others', and disputes to settle. The server holds the truth;
// the page saves half a second after the last change and says so.

import { BoxView } from "/assets/box.js";

const FIELDS = ["state", "box", "question", "answers", "domain", "tools", "evidence", "notes"];
const TABS = ["annotate", "review", "disputes"];
const PAUSE_MS = 500;
const $ = (id) => document.getElementById(id);
const view = new BoxView($("picture"), drawn);

let who = "", data = null, tab = "annotate", current = "", item = null;
let stack = [], place = 0, timer = 0, unsaved = false, saving = Promise.resolve(), refused = "", missing = [];

// ---- talking to the server

async function ask(path, body = null, method = "POST") {
  const options = body ? { method, headers: { "content-type": "application/json" }, body: JSON.stringify({ who, ...body }) } : {};
  options.keepalive = body !== null && options.body.length < 16000; // it outlives a reload; browsers allow 64 kB
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("the server does not answer; nothing is lost that says “saved”");
  }
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error ?? "refused"), { status: answer.status });
  return said;
}

async function load() {
  data = await ask(`/api/state?who=${encodeURIComponent(who)}`);
  $("bench").textContent = data.bench.name;
  document.title = `${data.bench.name}: annotate`;
  const counts = { annotate: data.pictures.length, review: data.review.filter((each) => !each.review?.verdict).length, disputes: data.disputes.length };
  for (const name of TABS) $(`tab-${name}`).querySelector("b").textContent = counts[name];
}

function say(text, kind = "") {
  $("saved").textContent = text;
  $("saved").title = text;
  $("saved").className = kind;
}

// ---- what is listed

const rows = () => ({ annotate: data.pictures, review: data.review, disputes: data.disputes })[tab];
const picture = (id) => data.pictures.find((each) => each.id === id);
const ownOf = (id) => data.own.filter((each) => each.picture === id);

function list() {
  const entries = rows().map((row) => (tab === "annotate" ? pictureRow(row) : questionRow(row)));
  $("list").replaceChildren(...entries);
  $("list").querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" });
  for (const name of TABS) $(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
  $("work").hidden = !rows().length;
  $("empty").hidden = Boolean(rows().length);
  $("empty").textContent = {
    annotate: "No pictures: collect and filter some first.",
    review: "Nothing to review: the others have finished no question yet.",
    disputes: "No disputes that you could settle.",
  }[tab];
}

function pictureRow(row) {
  const own = ownOf(row.id);
  const worst = ["disputed", "draft", "dropped", "waiting", "agreed"].find((kind) => own.some((each) => each.standing === kind));
  const others = data.others[row.id];
  const state = [own.length ? own.map((each) => each.standing).join(", ") : "no question yet", others ? `${others} by others` : ""];
  return entry(row.id, row.id, row.title || row.id, state.filter(Boolean).join("; "), worst ?? "");
}

function questionRow(row) {
  const state = tab === "disputes" ? `${row.reviews.length} reviews` : row.review?.verdict ?? (row.review ? "answer given" : "to review");
  const kind = { agree: "agreed", dispute: "disputed", keep: "agreed", drop: "dropped" }[row.review?.verdict] ?? "draft";
  return entry(row.id, row.picture, row.question, state, tab === "disputes" ? "disputed" : kind);
}

function entry(id, shown, text, state, kind) {
  const thumb = make("img", { src: `/pictures/${shown}?small=1`, alt: "", loading: "lazy" });
  const button = make("button", { type: "button", ariaCurrent: String(id === current), title: text },
    make("span", { className: `dot ${kind}` }), thumb, make("span", { className: "line" }, text), make("span", { className: "state muted" }, state));
  button.dataset.id = id;
  button.addEventListener("click", () => choose(id));
  return make("li", {}, button);
}

function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// ---- moving about

async function choose(id, question = "") {
  if (!(await settle())) return;
  current = id;
  refused = "";
  missing = [];
  if (tab === "annotate") await open(question || ownOf(id)[0]?.id || "");
  else paint();
  list();
}

async function go(name) {
  if (!(await settle())) return;
  await load();
  tab = name;
  const ids = rows().map((row) => row.id);
  item = null;
  if (ids.length) await choose(ids.includes(current) ? current : ids[0]);
  else list();
}

function step(by) {
  const ids = rows().map((row) => row.id);
  const next = ids[ids.indexOf(current) + by];
  if (next) choose(next);
}

async function open(question) {
  item = null;
  unsaved = false;
  refused = "";
  if (question) {
    const history = await ask(`/api/items/${question}/history?who=${encodeURIComponent(who)}`);
    item = history.at(-1);
    stack = history.map(content);
    place = stack.length - 1;
  }
  paint();
}

async function another() {
  if (!(await settle())) return;
  const made = await ask("/api/items", { picture: current });
  await load();
  await choose(current, made.id);
  say("saved");
}

// ---- the question that is being written

const content = (each) => Object.fromEntries(FIELDS.map((name) => [name, structuredClone(each[name])]));

function drawn(box, over) {
  showShare(box);
  if (!over) return;
  if (item) change({ box });
  else if (tab === "annotate" && box) another().then(() => { view.set(box); showShare(box); change({ box }); });
}

// Writing in a field is one step of undo until the save; everything else is a step of its own.
function change(fields, typed = false) {
  if (item.state === "done" && !("state" in fields)) fields = { ...fields, state: "draft" };
  Object.assign(item, fields);
  if (!(typed && timer)) place += 1;
  stack.length = place;
  stack[place] = content(item);
  schedule();
  if (!typed) paint();
}

function travel(by) {
  if (!item || !stack[place + by]) return;
  place += by;
  Object.assign(item, structuredClone(stack[place]));
  schedule();
  paint();
}

function schedule() {
  clearTimeout(timer);
  unsaved = true;
  say("not saved yet");
  timer = setTimeout(save, PAUSE_MS);
}

// Nobody leaves a question whose last change the server does not have: it is tried again, and the page stays there.
async function settle() {
  if (timer || unsaved) save();
  await saving;
  return !unsaved;
}

function save() {
  clearTimeout(timer);
  timer = 0;
  const wanted = item;
  saving = saving.then(() => put(wanted));
  return saving;
}

async function put(wanted) {
  say("saving");
  try {
    const fields = content(wanted);
    const kept = await ask(`/api/items/${wanted.id}`, { base: wanted.revision, fields }, "PUT");
    wanted.revision = kept.item.revision;
    if (fields.state === "done") {
      wanted.state = kept.item.state;
      missing = kept.problems;
    }
    refused = "";
    if (wanted === item && !timer) unsaved = false;
    await load();
    list();
    if (wanted === item) paintStanding();
    say(timer ? "not saved yet" : "saved");
  } catch (error) {
    refused = error.message;
    say(`not saved: ${error.message}`, "bad");
    if (wanted === item) paintStanding(error.status === 409);
  }
}

async function finish() {
  missing = [];
  change({ state: item.state === "done" ? "draft" : "done" });
  await save();
}

async function remove() {
  change({ state: "deleted" });
  await save();
  await choose(current);
}

// ---- what is shown

function paint() {
  const row = rows().find((each) => each.id === current);
  if (!row) return;
  const shown = picture(tab === "annotate" ? current : row.picture);
  const box = tab === "annotate" ? item?.box : tab === "review" ? row.item?.box : row.box;
  view.show(`/pictures/${shown.id}`, shown.width, shown.height, box ?? null, tab !== "annotate");
  showShare(box ?? null);
  const facts = [`${shown.width} × ${shown.height}`, shown.date, shown.licence, shown.title];
  $("about").textContent = facts.filter(Boolean).join(" · ");
  const panel = { annotate: annotatePanel, review: reviewPanel, disputes: disputePanel }[tab](row);
  const focused = document.activeElement?.name;
  $("panel").replaceChildren(...panel);
  if (focused) $("panel").querySelector(`[name="${focused}"]`)?.focus();
}

function showShare(box) {
  const shown = picture(tab === "annotate" ? current : rows().find((each) => each.id === current)?.picture);
  const limit = data.bench.object_share;
  const share = box && shown ? ((box[2] - box[0]) * (box[3] - box[1])) / (shown.width * shown.height) : null;
  $("share").textContent = share === null ? (tab === "annotate" ? "draw the box of the asked-for object" : "") : `${percent(share)} of the picture (limit ${percent(limit)})`;
  $("share").className = `share ${share === null ? "muted" : share > limit ? "bad" : "good"}`;
}

function percent(share) { return `${(share * 100).toFixed(share < 0.001 ? 3 : 2).replace(/\.?0+$/, "")} %`; }

function annotatePanel() {
  const own = ownOf(current);
  const picks = own.map((each, index) => make("button", { type: "button", ariaPressed: String(each.id === item?.id), onclick: () => choose(current, each.id) }, `Question ${index + 1}`));
  const add = make("button", { type: "button", id: "another", onclick: another }, own.length ? "Another" : "Write a question");
  const head = make("div", { className: "row questions" }, ...picks, add);
  if (!item) return [head, make("p", { className: "muted" }, "Draw a box, or press n, to begin a question about this picture.")];
  const domain = make("select", { name: "domain" }, make("option", { value: "" }, "choose"), ...data.bench.domains.map((name) => make("option", { value: name }, name)));
  domain.value = item.domain;
  domain.addEventListener("change", () => change({ domain: domain.value }));
  const tools = data.bench.tools.map((name) => {
    const input = make("input", { type: "checkbox", name: `tool-${name}`, checked: item.tools.includes(name) });
    input.addEventListener("change", () => change({ tools: data.bench.tools.filter((each) => (each === name ? input.checked : item.tools.includes(each))) }));
    return make("label", {}, input, ` ${name}`);
  });
  return [
    head,
    area("question", "Question", ""),
    lines("answers", "Accepted answers", "one a line"),
    field("Domain", domain),
    make("fieldset", {}, make("legend", {}, "Tools that are needed"), ...tools),
    lines("evidence", "Evidence", "links in which the answer stands, one a line"),
    area("notes", "Notes", "not published"),
    make("div", { id: "standing" }, ...standing()),
  ];
}

function field(name, input, hint = "") {
  const words = hint ? [`${name} `, make("span", {}, hint)] : [name];
  return make("label", { className: "field" }, make("div", {}, ...words), input);
}

function area(name, label, hint) {
  const input = make("textarea", { name, value: item[name], rows: 2 });
  input.addEventListener("input", () => change({ [name]: input.value }, true));
  return field(label, input, hint);
}

function lines(name, label, hint) {
  const input = make("textarea", { name, value: item[name].join("\n"), rows: 2 });
  input.addEventListener("input", () => change({ [name]: input.value.split("\n") }, true));
  return field(label, input, hint);
}

function standing(stale = false) {
  const known = data.own.find((each) => each.id === item.id);
  const done = item.state === "done";
  const where = done ? known?.standing ?? "waiting" : "draft";
  const words = { draft: "A draft: not yet shown to reviewers.", waiting: "Finished; it waits for reviews.", agreed: "Agreed.", disputed: "Disputed: change it and finish it again, or wait for an expert.", dropped: "Dropped by an expert." };
  const buttons = make("div", { className: "row" },
    make("button", { type: "button", id: "finish", className: done ? "" : "main", onclick: finish }, done ? "Back to draft" : "Finish"),
    make("button", { type: "button", id: "undo", onclick: () => travel(-1), disabled: place < 1 }, "Undo"),
    make("button", { type: "button", id: "redo", onclick: () => travel(1), disabled: place >= stack.length - 1 }, "Redo"),
    make("button", { type: "button", id: "delete", onclick: remove }, "Delete"));
  const why = missing.length ? [make("div", { className: "missing", role: "alert" }, "Not finished yet:", make("ul", {}, ...missing.map((each) => make("li", {}, each))))] : [];
  if (refused) why.push(make("p", { className: "bad small", role: "alert" }, `Not saved: ${refused}`));
  if (stale) why.push(make("button", { type: "button", id: "reload", onclick: () => open(item.id) }, "Load what was saved"));
  return [make("p", { className: `small ${{ agreed: "good", disputed: "bad", dropped: "bad" }[where] ?? "muted"}` }, words[where]), ...why, buttons, ...(known?.reviews ?? []).map(reviewCard)];
}

function paintStanding(stale = false) { $("standing")?.replaceChildren(...standing(stale)); }

function reviewCard(said) {
  const answer = said.answer ? [make("p", {}, `Own answer: ${said.answer}${said.matched ? "" : " (not accepted)"}`)] : [];
  return make("div", { className: `card ${said.verdict === "dispute" || said.verdict === "drop" ? "bad" : ""}` },
    make("h3", {}, `${said.reviewer}: ${said.verdict}`), ...answer, ...(said.why ? [make("p", { className: "small" }, said.why)] : []));
}

function goldCard(each) {
  const links = each.evidence.map((link) => make("li", {}, /^https?:/i.test(link) ? make("a", { href: link, target: "_blank", rel: "noreferrer noopener" }, link) : link));
  return make("div", { className: "card" }, make("h3", {}, "Accepted answers"), make("p", {}, each.answers.join(" · ")),
    make("p", { className: "small muted" }, `${each.domain}; ${each.tools.join(", ")}`), make("ul", { className: "small" }, ...links));
}

function reviewPanel(row) {
  const head = [make("p", { className: "asked" }, row.question), make("p", { className: "small muted" }, `${row.id}, by ${row.author}`)];
  if (!row.review) {
    const input = make("textarea", { name: "answer", rows: 2 });
    const send = make("button", { type: "button", id: "answer", className: "main", onclick: () => act(`/api/items/${row.id}/answer`, { answer: input.value }) }, "Give my answer");
    return [...head, field("Your own answer", input, "before you see the accepted ones; it is kept as it is"), send, note()];
  }
  const mark = row.review.matched ? "it is accepted" : "it is not among the accepted ones";
  const mine = make("div", { className: "card" }, make("h3", {}, "Your answer"), make("p", {}, row.review.answer), make("p", { className: row.review.matched ? "small good" : "small bad" }, mark));
  const why = make("textarea", { name: "why", rows: 2, value: row.review.why });
  const verdict = (name, label, main) => make("button", { type: "button", id: name, className: main ? "main" : "", ariaPressed: String(row.review.verdict === name), onclick: () => act(`/api/items/${row.id}/verdict`, { verdict: name, why: why.value }) }, label);
  const given = row.review.verdict ? [make("p", { className: row.review.verdict === "agree" ? "good" : "bad" }, `You said: ${row.review.verdict}`)] : [];
  return [...head, mine, goldCard(row.item), ...given, field("Why", why, "needed for a dispute"), make("div", { className: "row" }, verdict("agree", "Agree", row.review.matched), verdict("dispute", "Dispute", false)), note()];
}

function disputePanel(row) {
  const why = make("textarea", { name: "why", rows: 2 });
  const settleAs = (name, label) => make("button", { type: "button", id: name, onclick: () => act(`/api/items/${row.id}/verdict`, { verdict: name, why: why.value }) }, label);
  return [make("p", { className: "asked" }, row.question), make("p", { className: "small muted" }, `${row.id}, by ${row.author}`), goldCard(row), ...row.reviews.map(reviewCard),
    field("Your reason", why, "needed to drop it"), make("div", { className: "row" }, settleAs("keep", "Keep the question"), settleAs("drop", "Drop it")), note()];
}

function note() { return make("p", { className: "missing", role: "alert" }, refused); }

async function act(path, body) {
  refused = "";
  try {
    await ask(path, body);
    await load();
    say("saved");
  } catch (error) {
    refused = error.message;
    say(`not saved: ${error.message}`, "bad");
  }
  if (rows().some((row) => row.id === current)) { list(); paint(); } else await go(tab);
}

// ---- keys and start

function isWriting(target) { return target.closest?.("textarea, select, input:not([type=checkbox])"); }

addEventListener("keydown", (event) => {
  if (!data || $("keys").open) return;
  const control = event.ctrlKey || event.metaKey;
  if (control && event.key.toLowerCase() === "z" && item && tab === "annotate") {
    event.preventDefault();
    travel(event.shiftKey ? 1 : -1);
  } else if (control && event.key === "Enter") {
    event.preventDefault();
    ($("finish") ?? $("answer"))?.click();
  } else if (event.key === "Escape" && isWriting(event.target)) event.target.blur();
  else if (!control && !event.altKey && !isWriting(event.target)) shortcut(event);
});

function shortcut(event) {
  const keys = {
    j: () => step(1), k: () => step(-1), n: () => tab === "annotate" && another(), b: () => $("picture").focus(),
    q: () => $("panel").querySelector("textarea")?.focus(), "+": () => view.zoom(0.7), "-": () => view.zoom(1 / 0.7), 0: () => view.whole(),
    "?": () => $("keys").showModal(), 1: () => go("annotate"), 2: () => go("review"), 3: () => go("disputes"),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

for (const name of TABS) $(`tab-${name}`).addEventListener("click", () => go(name));
$("help").addEventListener("click", () => $("keys").showModal());
$("zoom-in").addEventListener("click", () => view.zoom(0.7));
$("zoom-out").addEventListener("click", () => view.zoom(1 / 0.7));
$("zoom-all").addEventListener("click", () => view.whole());
$("zoom-box").addEventListener("click", () => view.toBox());
addEventListener("beforeunload", (event) => { if (timer || unsaved) { save(); event.preventDefault(); } });

async function enter(name) {
  if (!(await settle())) {
    $("who").value = who;
    return;
  }
  who = name;
  $("who").value = name;
  localStorage.setItem("who", name);
  current = "";
  try {
    await go("annotate");
    say("");
  } catch (error) {
    say(error.message, "bad");
  }
}

$("who-form").addEventListener("submit", (event) => {
  event.preventDefault();
  $("who").blur();
  enter($("who").value.trim());
});

const known = new URLSearchParams(location.search).get("who") ?? localStorage.getItem("who");
if (known) enter(known);
else {
  $("empty").hidden = false;
  $("empty").textContent = "Write your name above to begin.";
  $("who").focus();
}
