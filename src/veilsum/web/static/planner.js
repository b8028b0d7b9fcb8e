/* The planner page: a drawing, and what the program on this computer says of it.

   Nothing is worked out here but where things stand in the picture. A network is asked
   about as soon as it changes; while an answer is awaited only the newest network is
   kept, and a question that takes long is given up for a newer one. */

import cytoscape from "./cytoscape.js";
import { words } from "./planner_words.js";

const STALE = 300; // milliseconds after which a newer question is worth more
const SLOW = 500; // milliseconds after which the page says that it works on it
const SCALE = 220; // of the unit circle in which the program places parties
const STEP = 8; // of an arrow key
const $ = (id) => document.getElementById(id);

let say = words.en;
let most = { parties: 500, links: 5000, file: 1 << 20 };

/* ---- the network: parties by id, links as pairs of ids ---- */

const network = { parties: new Map(), links: new Map(), next: 0 };
const history = [];
let chosen = null; // the party that keys are about
let begun = null; // where a link begins
let mode = "move";

const linkId = (a, b) => (a < b ? `${a}-${b}` : `${b}-${a}`);

function remember() {
  history.push({
    parties: [...network.parties.values()].map((one) => ({ ...one })),
    links: [...network.links.values()],
  });
  if (history.length > 100) history.shift();
  $("undo").disabled = false;
}

function addParty(name, x, y) {
  const id = `p${String(network.next++).padStart(6, "0")}`;
  network.parties.set(id, { id, name, x, y });
  return id;
}

function freeName() {
  const taken = new Set([...network.parties.values()].map((one) => one.name));
  let number = network.parties.size;
  while (taken.has(String(number))) number++;
  return String(number);
}

function toggleLink(a, b) {
  if (a === b) return;
  const id = linkId(a, b);
  if (!network.links.delete(id)) network.links.set(id, id.split("-"));
}

function removeParty(id) {
  network.parties.delete(id);
  for (const [key, ends] of network.links) if (ends.includes(id)) network.links.delete(key);
  if (chosen === id) chosen = null;
  if (begun === id) begun = null;
}

function replaceBy(drawn) {
  remember();
  network.parties.clear();
  network.links.clear();
  const ids = drawn.parties.map((name, k) => addParty(name, drawn.places[k][0] * SCALE, -drawn.places[k][1] * SCALE));
  for (const [a, b] of drawn.links) toggleLink(ids[a], ids[b]);
  chosen = begun = null;
  $("near").checked = false;
  $("reach").disabled = true;
  if (drawn.tolerate !== undefined) $("tolerate").value = drawn.tolerate;
  $("notes").textContent = (drawn.notes ?? []).join("; ");
  changed({ fit: true });
}

function undo() {
  const before = history.pop();
  $("undo").disabled = history.length === 0;
  if (!before) return;
  network.parties = new Map(before.parties.map((one) => [one.id, one]));
  network.links = new Map(before.links.map((ends) => [linkId(...ends), ends]));
  $("near").checked = false;
  $("reach").disabled = true;
  chosen = begun = null;
  changed();
}

function followDistance() {
  if (!$("near").checked) return;
  const reach = Number($("reach").value) * 2;
  const all = [...network.parties.values()];
  network.links.clear();
  for (let i = 0; i < all.length; i++)
    for (let j = 0; j < i; j++)
      if (Math.hypot(all[i].x - all[j].x, all[i].y - all[j].y) < reach) toggleLink(all[i].id, all[j].id);
}

/* ---- the picture ---- */

const picture = cytoscape({ container: $("drawing"), minZoom: 0.1, maxZoom: 5, boxSelectionEnabled: false });

function paint() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  picture.style([
    { selector: "node", style: { label: "data(name)", color: colour("ink"), "background-color": colour("party"), width: 24, height: 24, "font-size": 15, "text-valign": "bottom", "text-margin-y": 3, "text-outline-color": colour("field"), "text-outline-width": 2, "z-index": 10 } },
    { selector: "edge", style: { "line-color": colour("edge"), width: 2, "curve-style": "straight" } },
    { selector: "node.worst", style: { shape: "rectangle", "background-color": colour("worst"), width: 26, height: 26 } },
    { selector: "edge.lost", style: { "line-style": "dotted", opacity: 0.55 } },
    { selector: "edge.proposed", style: { "line-style": "dashed", "line-color": colour("proposed"), width: 3, events: "no" } },
    { selector: "node.chosen", style: { "border-width": 4, "border-color": colour("ink") } },
    { selector: "node.begun", style: { "border-width": 6, "border-style": "double", "border-color": colour("proposed") } },
  ]);
}

function draw({ fit = false } = {}) {
  picture.batch(() => {
    picture.elements().forEach((one) => {
      if (one.hasClass("proposed") || !(network.parties.has(one.id()) || network.links.has(one.id()))) one.remove();
    });
    for (const { id, name, x, y } of network.parties.values()) {
      const seen = picture.getElementById(id);
      if (seen.empty()) picture.add({ data: { id, name }, position: { x, y } });
      else {
        seen.data("name", name);
        if (!seen.grabbed()) seen.position({ x, y });
      }
    }
    for (const [id, [source, target]] of network.links)
      if (picture.getElementById(id).empty()) picture.add({ data: { id, source, target } });
    mark();
  });
  if (fit) picture.fit(undefined, 30);
}

function mark() {
  picture.nodes().forEach((one) => {
    one.toggleClass("chosen", one.id() === chosen);
    one.toggleClass("begun", one.id() === begun);
  });
  const name = chosen && network.parties.get(chosen)?.name;
  $("drawing").setAttribute("aria-label", name ? say["drawing-at"](name) : say.drawing);
}

function lists() {
  const all = [...network.parties.values()];
  const near = new Map(all.map((one) => [one.id, []]));
  for (const [a, b] of network.links.values()) {
    near.get(a)?.push(network.parties.get(b).name);
    near.get(b)?.push(network.parties.get(a).name);
  }
  for (const select of [$("link-from"), $("link-to")]) {
    const before = select.value;
    select.replaceChildren(...all.map((one) => new Option(one.name, one.id)));
    if (network.parties.has(before)) select.value = before;
  }
  if ($("link-to").value === $("link-from").value && all.length > 1) $("link-to").selectedIndex = ($("link-from").selectedIndex + 1) % all.length;
  const focused = document.activeElement?.closest("#rows tr")?.dataset.id;
  $("rows").replaceChildren(...all.map((one) => {
    const row = document.createElement("tr");
    row.dataset.id = one.id;
    const field = document.createElement("input");
    field.value = one.name;
    field.maxLength = 64;
    field.setAttribute("aria-label", say["rename"](one.name));
    field.addEventListener("change", () => {
      remember();
      one.name = field.value.trim();
      changed();
    });
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = say.remove;
    button.setAttribute("aria-label", say["remove-one"](one.name));
    button.addEventListener("click", () => {
      remember();
      removeParty(one.id);
      changed();
    });
    const cells = [field, document.createTextNode(near.get(one.id).join(", ") || say.nobody), button];
    row.append(...cells.map((inside) => {
      const cell = document.createElement("td");
      cell.append(inside);
      return cell;
    }));
    return row;
  }));
  if (focused) $("rows").querySelector(`tr[data-id="${focused}"] input`)?.focus();
}

let listing = 0;
function changed({ fit = false } = {}) {
  followDistance();
  draw({ fit });
  ask();
  cancelAnimationFrame(listing);
  listing = requestAnimationFrame(lists); // once for many changes
}

/* ---- questions and answers ---- */

async function post(path, body, signal) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
  const kind = answer.headers.get("content-type") ?? "";
  if (!kind.includes("json")) throw new Error((await answer.text()).trim());
  const found = await answer.json();
  if (found.error !== undefined) throw new Error(found.error);
  return found.answer;
}

class Asker {
  /* One question at a time; of those that come meanwhile the newest. */
  constructor(path, shown, failed) {
    Object.assign(this, { path, shown, failed, newest: null, flight: null });
  }

  ask(question) {
    this.newest = question;
    if (this.flight === null) this.send();
    else this.giveUpLater();
  }

  giveUpLater() {
    const flight = this.flight;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.flight === flight && this.newest !== flight.question) flight.control.abort();
    }, Math.max(0, STALE - (performance.now() - flight.since)));
  }

  async send() {
    const question = this.newest;
    const flight = { question, control: new AbortController(), since: performance.now() };
    this.flight = flight;
    try {
      const answer = await post(this.path, question.body, flight.control.signal);
      document.body.dataset[this.path] = (performance.now() - flight.since).toFixed(1);
      if (question.version === version || this.path === "plan") this.shown(answer, question);
    } catch (error) {
      if (error.name !== "AbortError" && question === this.newest) this.failed(error.message, question);
    }
    this.flight = null;
    if (this.newest !== question) this.send();
    count();
  }
}

// Numbers of the newest question, and of the newest one to which all answers are shown: for tests.
function count() {
  document.body.dataset.asked = version;
  if (plan.flight === null && mend.flight === null) document.body.dataset.answered = version;
}

let version = 0;
let slow = 0;
let last = "";

function question() {
  const ids = [...network.parties.keys()];
  const place = new Map(ids.map((id, k) => [id, k]));
  const apart = document.querySelector("input[name=apart]:checked").value;
  const noise = document.querySelector("input[name=noise]:checked").value;
  const number = (id) => ($(id).value === "" ? null : Number($(id).value));
  const asked = {
    parties: ids.map((id) => network.parties.get(id).name),
    links: [...network.links.values()].map(([a, b]) => [place.get(a), place.get(b)]),
    tolerate: number("tolerate"),
    target: { success: number("target") / 100, [apart]: number(apart) },
    law: $("law").value,
  };
  if (noise === "fixed" && number("sigma") !== null && asked.law !== "uniform") asked.sigma = number("sigma");
  return { ids, body: JSON.stringify(asked) };
}

function ask() {
  const asked = question();
  if (asked.body === last) return;
  last = asked.body;
  asked.version = ++version;
  if (asked.ids.length > most.parties || network.links.size > most.links) {
    failed(say.large(most.parties, most.links), asked);
    count();
    return;
  }
  plan.ask(asked);
  count();
  $("mend").disabled = true; // until it is about this network
  clearTimeout(slow);
  slow = setTimeout(() => {
    if (plan.flight) Object.assign($("verdict"), { textContent: say.working, className: "verdict" });
    if (mend.flight) $("repair").textContent = say.working;
  }, SLOW);
}

const plan = new Asker("plan", (found, asked) => {
  shown(found, asked);
  mend.ask(asked); // then, so that the two do not wait for each other
}, failed);
const mend = new Asker("mend", repaired, () => {
  $("repair").textContent = "";
  $("mend").hidden = true;
});

const names = (places, ids) => places.map((k) => network.parties.get(ids[k])?.name ?? "?");
const listed = (all) => (all.length > 8 ? `${all.slice(0, 8).join(", ")} ${say.more(all.length - 8)}` : all.join(", "));
const figures = (value) => (value === null ? say.none : Number(value.toPrecision(4)).toString());
const percent = (value) => `${(100 * value).toFixed(value > 0.999 || value < 0.501 ? 3 : 2)} %`;

function shown(found, asked) {
  trouble("");
  const { ids } = asked;
  const cut = found.cut !== null;
  const verdict = $("verdict");
  let kind = "good";
  let text = say.met;
  if (cut) {
    kind = "bad";
    text = found.cut.length === 0 ? say.pieces : say.cut(listed(names(found.cut, ids)));
  } else if (found.epsilon === null) {
    kind = "open";
    text = say.unproved;
  } else if (!found.met) {
    kind = found.exact ? "bad" : "open";
    text = found.exact ? say.missed(percent(found.target.success)) : say["missed-open"](percent(found.target.success));
  }
  verdict.className = `verdict ${kind}`;
  verdict.textContent = text;
  $("success").textContent = cut ? say.certain : found.success === null ? say.unknown : `${found.exact ? "" : say.atmost}${percent(found.success)}`;
  $("epsilon").textContent = cut || found.epsilon === null ? say.none : found.exact ? say.exactly(figures(found.epsilon)) : say.between(figures(found.epsilon_lower ?? 0), figures(found.epsilon_upper));
  $("coalition-title").textContent = cut ? say["coalition-cut"] : found.exact ? say.coalition : say["coalition-found"];
  $("coalition").textContent = listed(names(found.coalition, ids)) || say.nobody;
  $("connectivity").textContent = found.connectivity === null ? say.unknown : String(found.connectivity);
  $("needed").textContent = found.law === "uniform" && !cut ? say.nosigma : figures(found.needed);
  $("sentence").textContent = found.sentence;
  $("take").disabled = found.needed === null;
  $("take").dataset.sigma = found.needed ?? "";
  if (found.needed !== null && $("sigma").value === "") take();
  const worst = new Set(found.coalition.map((k) => ids[k]));
  picture.batch(() => {
    picture.nodes().forEach((one) => { one.toggleClass("worst", worst.has(one.id())); });
    picture.edges().forEach((one) => { one.toggleClass("lost", worst.has(one.data("source")) || worst.has(one.data("target"))); });
  });
  announce();
}

let proposed = [];
function repaired(found, { ids }) {
  const pairs = found.links.length ? found.links : found.helpful.slice(0, 1).map((one) => one.link);
  proposed = pairs.map((link) => link.map((k) => ids[k]));
  const shownPairs = listed(pairs.map((link) => names(link, ids).join(" \u2013 ")));
  const button = $("mend");
  button.hidden = pairs.length === 0;
  button.disabled = false;
  button.textContent = pairs.length > 1 ? say["add-these"](pairs.length) : say["add-this"];
  if (found.links.length) {
    const few = found.gap ? say.atleast(found.links.length - found.gap) : say.fewest;
    $("repair").textContent = `${say.mends(found.links.length)} ${shownPairs} (${few}).`;
  } else if (found.helpful.length) {
    $("repair").textContent = say.helps(shownPairs, found.helpful[0].ratio.toFixed(3));
  } else {
    $("repair").textContent = ids.length > 250 ? say.nottried : say.nohelp;
  }
  picture.batch(() => {
    picture.elements(".proposed").remove();
    proposed.forEach(([source, target], k) => {
      if (network.parties.has(source) && network.parties.has(target)) picture.add({ data: { id: `proposed-${k}`, source, target }, classes: "proposed" });
    });
  });
  announce();
}

function failed(message, asked) {
  if (asked.version !== version) return;
  $("verdict").className = "verdict open";
  $("verdict").textContent = message;
  for (const id of ["success", "epsilon", "coalition", "connectivity", "needed", "sentence"]) $(id).textContent = "";
  picture.elements().removeClass("worst lost");
  announce();
}

function trouble(message) {
  $("trouble").textContent = message;
}

let telling = 0;
function announce() {
  clearTimeout(telling);
  telling = setTimeout(() => {
    $("said").textContent = [$("verdict"), $("success"), $("repair")].map((one) => one.textContent).filter(Boolean).join(" ");
  }, 900);
}

function take() {
  const needed = Number($("take").dataset.sigma);
  if (!(needed > 0)) return;
  // Four digits, and not below: less noise would miss the target.
  const unit = 10 ** (Math.floor(Math.log10(needed)) - 3);
  $("sigma").value = Number((Math.ceil(needed / unit) * unit).toPrecision(4));
  ask();
}

/* ---- hands: mouse, touch, keys ---- */

function setMode(wanted) {
  mode = wanted;
  begun = null;
  for (const one of document.querySelectorAll("[data-mode]")) one.setAttribute("aria-pressed", String(one.dataset.mode === mode));
  picture.autoungrabify(mode !== "move");
  mark();
}

picture.on("tap", (event) => {
  const at = event.target;
  if (at === picture) {
    if (mode !== "add") return;
    remember();
    chosen = addParty(freeName(), event.position.x, event.position.y);
    changed();
    return;
  }
  if (at.hasClass("proposed")) return;
  if (mode === "remove") {
    remember();
    if (at.isNode()) removeParty(at.id());
    else network.links.delete(at.id());
    changed();
  } else if (at.isNode()) {
    chosen = at.id();
    if (mode === "link") endLink(chosen);
    mark();
  }
});

function endLink(id) {
  if (begun === null) {
    begun = id;
  } else {
    if (begun !== id) remember();
    toggleLink(begun, id);
    begun = null;
    changed();
  }
}

picture.on("grab", "node", () => remember());
picture.on("drag", "node", (event) => {
  const party = network.parties.get(event.target.id());
  Object.assign(party, event.target.position());
  chosen = party.id;
  if ($("near").checked) changed();
});

const ARROWS = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };

$("drawing").addEventListener("keydown", (event) => {
  const ids = [...network.parties.keys()];
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if ((event.ctrlKey || event.metaKey) && key === "z") {
    event.preventDefault();
    undo();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = ids.indexOf(chosen);
  if (key === "n" || key === "p") {
    chosen = ids[(at + (key === "n" ? 1 : at < 0 ? 0 : -1) + ids.length) % ids.length] ?? null;
    mark();
  } else if (key in ARROWS && chosen) {
    const party = network.parties.get(chosen);
    if (!event.repeat) remember();
    party.x += ARROWS[key][0] * (event.shiftKey ? 5 : 1);
    party.y += ARROWS[key][1] * (event.shiftKey ? 5 : 1);
    changed();
  } else if (key === "a") {
    remember();
    const box = picture.extent();
    const turn = network.parties.size * 2.4; // so that no two stand on each other
    chosen = addParty(freeName(), (box.x1 + box.x2) / 2 + 0.3 * box.w * Math.cos(turn), (box.y1 + box.y2) / 2 + 0.3 * box.h * Math.sin(turn));
    changed();
  } else if (key === "l" && chosen) {
    endLink(chosen);
    mark();
  } else if ((key === "Delete" || key === "Backspace") && chosen) {
    remember();
    removeParty(chosen);
    changed();
  } else if (key === "Escape") {
    begun = null;
    mark();
  } else return;
  event.preventDefault();
});

/* ---- the fields around it ---- */

for (const button of document.querySelectorAll("[data-mode]")) button.addEventListener("click", () => setMode(button.dataset.mode));
$("undo").addEventListener("click", undo);
$("take").addEventListener("click", take);
for (const id of ["tolerate", "target", "within", "distance", "sigma"]) $(id).addEventListener("input", () => {
  if (id === "within" || id === "distance") document.querySelector(`input[name=apart][value=${id}]`).checked = true;
  if (id === "sigma") document.querySelector("input[name=noise][value=fixed]").checked = true;
  ask();
});
for (const one of document.querySelectorAll("input[type=radio], #law")) one.addEventListener("change", ask);
$("near").addEventListener("change", () => {
  $("reach").disabled = !$("near").checked;
  if ($("near").checked) {
    remember();
    // Far enough for the links that there are.
    const long = [...network.links.values()].map((ends) => {
      const [a, b] = ends.map((id) => network.parties.get(id));
      return Math.hypot(a.x - b.x, a.y - b.y);
    });
    $("reach").value = Math.ceil(Math.max(0, ...long) / 2 + 1);
    showReach();
  }
  changed();
});
$("reach").addEventListener("input", () => {
  showReach();
  changed();
});
const showReach = () => { $("reach-shown").textContent = $("reach").value; };

$("party-form").addEventListener("submit", (event) => {
  event.preventDefault();
  remember();
  const turn = network.parties.size * 2.4;
  chosen = addParty($("party-name").value.trim() || freeName(), 0.7 * SCALE * Math.cos(turn), 0.7 * SCALE * Math.sin(turn));
  $("party-name").value = "";
  changed();
});
$("link-form").addEventListener("submit", (event) => {
  event.preventDefault();
  remember();
  toggleLink($("link-from").value, $("link-to").value);
  changed();
});
$("mend").addEventListener("click", () => {
  remember();
  $("near").checked = false;
  $("reach").disabled = true;
  for (const [a, b] of proposed) if (network.parties.has(a) && network.parties.has(b) && !network.links.has(linkId(a, b))) toggleLink(a, b);
  changed();
});

async function fetched(path, body) {
  try {
    const found = await post(path, JSON.stringify(body));
    trouble("");
    return found;
  } catch (error) {
    trouble(error.message);
    return null;
  }
}

$("family-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const drawn = await fetched("family", { family: $("family").value });
  if (drawn) replaceBy(drawn);
});
$("file").addEventListener("change", async () => {
  const [file] = $("file").files;
  if (!file) return;
  if (file.size > most.file) {
    trouble(say.longfile(most.file));
    return;
  }
  const drawn = await fetched("file", { name: file.name, text: await file.text() });
  $("file").value = "";
  if (drawn) replaceBy(drawn);
});
$("export").addEventListener("click", async () => {
  const found = await fetched("export", JSON.parse(question().body));
  if (!found) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([found.text], { type: "application/toml" }));
  link.download = found.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  $("saved").hidden = false;
  $("commands").textContent = found.commands.join("\n");
});

/* ---- words, colours, beginning ---- */

function speak(language) {
  say = words[language];
  document.documentElement.lang = language;
  $("language").value = language;
  for (const one of document.querySelectorAll("[data-say]")) one.textContent = say[one.dataset.say];
  for (const [id, key] of [["within", "w-within"], ["distance", "w-distance"], ["sigma", "w-fixed"]]) $(id).setAttribute("aria-label", say[key]);
  mark();
  lists();
  last = "";
  if (network.parties.size) ask();
}

$("language").addEventListener("change", () => speak($("language").value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
new ResizeObserver(() => {
  picture.resize();
  picture.fit(undefined, 30);
}).observe($("drawing"));

const start = await (await fetch("start")).json();
most = start.most;
for (const key of ["tolerate", "within", "distance"]) if (start[key] !== undefined) $(key).value = start[key];
if (start.success !== undefined) $("target").value = 100 * start.success;
if (start.distance !== undefined) document.querySelector("input[name=apart][value=distance]").checked = true;
if (start.law !== undefined) $("law").value = start.law;
if (start.family !== undefined) $("family").value = start.family;
showReach();
paint();
speak(navigator.language.startsWith("de") ? "de" : "en");
const first = start.drawn ?? (await fetched("family", { family: $("family").value }));
if (first) replaceBy(first);
history.length = 0;
$("undo").disabled = true;
