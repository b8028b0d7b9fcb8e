// The page of runs. The server sends what has changed (server-sent events); here it is
// put on the page, as text and as drawings, never as HTML.

import uPlot from "./uplot.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_SAMPLES = 1200; // as many as the server keeps
const MOST_LINES = 300;
const MOST_NAMES = 16; // of more parties names would lie on each other
const NAME_LETTERS = 14;
const SILENCE = 30; // seconds without a word after which nobody is there
const AGAIN = 5; // seconds until another try, where the browser does not try itself
const WORDS = {
  pending: "waits for a person",
  queued: "queued",
  running: "running",
  silent: "no sign of life",
  stopped: "stopped",
  refused: "refused",
  failed: "failed",
  "given up": "given up",
  done: "done",
};

const runs = new Map();
const networks = new Map();
const groups = new Map();
let ahead = 0; // seconds by which the server's clock is ahead of this one
let heard = 0;
let source = null;

// Elements

const at = (id) => document.getElementById(id);

function make(name, attributes = {}, ...parts) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...parts);
  return made;
}

function draw(name, attributes, ...parts) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...parts);
  return made;
}

// Only what differs is written: whoever reads, selects or has focus is not disturbed.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function hide(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

function settle(parent, place, element) {
  const there = parent.children[place];
  if (there !== element) parent.insertBefore(element, there ?? null);
}

function list(names, most = 12) {
  const shown = names.slice(0, most).join(", ");
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

const number = (value) => value.toLocaleString("en");

function size(bytes) {
  if (bytes < 10_000) return `${number(bytes)} bytes`;
  return bytes < 10_000_000 ? `${number(Math.round(bytes / 1000))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function lasting(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min`;
  return whole < 172_800 ? `${Math.floor(whole / 3600)} h` : `${Math.floor(whole / 86_400)} days`;
}

const now = () => Date.now() / 1000 + ahead;
const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);
const isUp = (run) => run.state === "running" || run.state === "silent";
const isGood = (condition) => condition === "connected" || condition.startsWith("heard through files");

// One party's part in a run

class Seat {
  constructor() {
    this.title = make("h3");
    this.state = make("span", { class: "state" });
    this.link = make("a", { class: "report", target: "_blank", rel: "noopener" }, "Report");
    this.facts = make("dl");
    this.rows = new Map();
    this.progress = make("progress", { max: "1", "aria-label": "of the deadline" });
    this.advice = make("p", { class: "advice" });
    this.linksTitle = make("summary");
    this.linksList = make("ul");
    this.links = make("details", {}, this.linksTitle, this.linksList);
    this.chart = new Chart();
    this.story = make("ol");
    this.stories = make("details", {}, make("summary", {}, "What happened, as this page saw it"), this.story);
    const head = make("header", {}, this.title, this.state, this.link);
    this.element = make("article", { class: "seat" }, head, this.facts, this.advice, this.links);
    this.element.append(this.chart.element, this.stories);
  }

  row(name, text) {
    if (!this.rows.has(name)) {
      const pair = [make("dt", {}, name), make("dd")];
      pair[1].append(make("span"));
      this.rows.set(name, pair);
      this.facts.append(...pair);
    }
    const [term, said] = this.rows.get(name);
    hide(term, text === "");
    hide(said, text === "");
    write(said.firstChild, text);
    return said;
  }

  show(run) {
    this.run = run;
    write(this.title, run.party);
    write(this.state, WORDS[run.state] ?? run.state);
    this.state.className = `state ${run.state.replace(" ", "-")}`;
    hide(this.link, !run.report);
    this.link.href = `/report/${encodeURIComponent(run.id)}`;
    this.link.setAttribute("aria-label", `Report of ${run.party}`);
    this.row("phase", run.words ? `${run.phase}: ${run.words}` : run.phase);
    this.row("round", run.round > 0 ? number(run.round) : "");
    this.row("epoch", run.epoch > 0 ? `${number(run.epoch)} (sums, and losses of parties)` : "");
    this.row("sent", run.sent > 0 ? size(run.sent) : "");
    this.row("lost", list(run.lost)).className = "lost";
    this.row("waits for", isUp(run) ? list(run.waiting) : "").className = "wait";
    this.row("withheld", isUp(run) ? run.withheld : "");
    this.row("deadline", "").append(this.progress);
    write(this.advice, run.advice);
    hide(this.advice, run.advice === "");
    this.showLinks(run);
    this.showStory(run);
    this.chart.show(run.samples);
    this.tick();
  }

  showLinks(run) {
    const links = Object.entries(run.links);
    hide(this.links, !isUp(run) || links.length === 0);
    const good = links.filter(([, condition]) => isGood(condition)).length;
    const when = run.state === "silent" ? ", as it last said" : "";
    write(this.linksTitle, `${good} of ${links.length} links stand${when}`);
    const lines = links.sort(([, a], [, b]) => isGood(a) - isGood(b)).slice(0, 100);
    fill(this.linksList, lines.map(([name, condition]) => `${name}: ${condition}`));
  }

  showStory(run) {
    const lines = [];
    let before = "";
    for (const [when, , , state, phase] of run.samples) {
      const told = state === "running" && phase ? phase : (WORDS[state] ?? state);
      if (told !== before) lines.push(`${clock(when)} UTC ${told}`);
      before = told;
    }
    fill(this.story, lines.slice(-100));
    hide(this.stories, lines.length < 2);
  }

  // Called every second: time goes on while nothing is sent.
  tick() {
    const run = this.run;
    const since = run.moved > 0 ? now() - run.moved : 0;
    this.row("moved", run.moved > 0 ? `${lasting(since)} ago` : "");
    const counts = run.state === "running" && run.waiting.length > 0 && run.deadline > 0;
    const words = `${lasting(since)} of ${lasting(run.deadline)}, after which something is done about it`;
    this.row("deadline", counts ? words : "");
    this.progress.value = counts ? Math.min(1, since / run.deadline) : 0;
  }
}

function fill(element, lines) {
  const old = [...element.children];
  lines.forEach((line, k) => {
    if (k < old.length) write(old[k], line);
    else element.append(make("li", {}, line));
  });
  old.slice(lines.length).forEach((one) => one.remove());
}

// Bytes and rounds over time

class Chart {
  constructor() {
    this.place = make("div", { class: "chart" });
    this.caption = make("figcaption");
    const figure = make("figure", {}, this.place, this.caption);
    this.element = make("details", {}, make("summary", {}, "Bytes and rounds over time"), figure);
    this.element.addEventListener("toggle", () => this.render());
    this.samples = [];
  }

  show(samples) {
    this.samples = samples;
    hide(this.element, !samples.some((one) => one[2] > samples[0][2]));
    const first = samples[0];
    const last = samples[samples.length - 1];
    const rounds = last[1] > 0 ? `, ${number(last[1] - first[1])} rounds` : "";
    write(this.caption, `${size(Math.max(0, last[2] - first[2]))} sent${rounds} in ${lasting(last[0] - first[0])} that this page knows of`);
    this.render();
  }

  render() {
    if (!this.element.open || !this.place.isConnected) return;
    const hasRounds = this.samples.some((one) => one[1] > 0);
    const columns = [0, 2, ...(hasRounds ? [1] : [])];
    const data = columns.map((column) => this.samples.map((one) => one[column]));
    const width = Math.max(200, this.place.clientWidth);
    const style = getComputedStyle(document.documentElement);
    const looks = [width, hasRounds, style.getPropertyValue("--ink")].join(" ");
    if (this.looks === looks) {
      this.plot.setData(data);
      return;
    }
    this.plot?.destroy();
    this.looks = looks;
    this.plot = new uPlot(options(width, hasRounds, style), data, this.place);
  }
}

function options(width, hasRounds, style) {
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--ink"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const steps = uPlot.paths.stepped({ align: 1 });
  const series = [
    { label: "time", value: (_, seconds) => (seconds == null ? "" : `${clock(seconds)} UTC`) },
    { label: "bytes sent", scale: "bytes", stroke: colour("--accent"), width: 2, paths: steps, points: { show: false } },
  ];
  const short = (value) => (value >= 1e6 ? `${value / 1e6} MB` : value >= 1000 ? `${value / 1000} kB` : `${value}`);
  const axes = [{ ...axis, space: 80, values: (_, found) => found.map(clock) }, { ...axis, scale: "bytes", size: 64, values: (_, found) => found.map(short) }];
  if (hasRounds) {
    series.push({ label: "rounds", scale: "rounds", stroke: colour("--wait"), width: 2, dash: [6, 4], paths: steps, points: { show: false } });
    axes.push({ ...axis, scale: "rounds", side: 1, grid: { show: false } });
  }
  const range = (_, low, high) => [0, Math.max(1, 1.05 * high)];
  const scales = { bytes: { range }, rounds: { range } };
  return { width, height: 180, series, axes, scales, cursor: { drag: { x: false, y: false } } };
}

// A run: its network, and the parties of it that are on this computer

class Group {
  constructor() {
    this.title = make("h2");
    this.title.id = `title-${groups.size}-${Math.floor(performance.now())}`;
    this.name = make("p", { class: "name" });
    this.network = make("figure", { class: "network" });
    this.seats = make("div", { class: "seats" });
    this.body = make("div", { class: "body" }, this.network, this.seats);
    this.element = make("section", { class: "run", "aria-labelledby": this.title.id }, this.title, this.name, this.body);
    this.parts = new Map();
  }

  show(found) {
    const drawn = networks.get(found[0].consortium) ?? null;
    write(this.title, drawn?.title || `Run ${found[0].run.slice(-8)}`);
    const count = drawn ? ` \u00b7 ${number(drawn.parties.length)} parties, ${number(drawn.n_links)} links` : "";
    write(this.name, `${found[0].run}${count}`);
    for (const [id, seat] of [...this.parts]) {
      if (!found.some((one) => one.id === id)) {
        seat.element.remove();
        this.parts.delete(id);
      }
    }
    found.forEach((run, place) => {
      if (!this.parts.has(run.id)) this.parts.set(run.id, new Seat());
      const seat = this.parts.get(run.id);
      settle(this.seats, place, seat.element);
      seat.element.classList.toggle("only", found.length === 1);
      seat.show(run);
    });
    this.body.classList.toggle("drawn", drawn !== null);
    hide(this.network, drawn === null);
    if (drawn !== null) this.showNetwork(drawn, found);
  }

  showNetwork(drawn, found) {
    const key = JSON.stringify(found.map((run) => [run.id, run.state, run.waiting, run.lost, run.links]));
    if (key === this.key) return;
    this.key = key;
    this.network.replaceChildren(...network(drawn, found));
  }
}

// Who is where, from the same places as everywhere in this package: y points up.
function network(drawn, found) {
  const named = drawn.parties.length <= MOST_NAMES;
  const [width, height] = [460, 330];
  const [reach, high] = named ? [104, 128] : [210, 150];
  const x = (k) => width / 2 + reach * drawn.places[k][0];
  const y = (k) => height / 2 - high * drawn.places[k][1];
  const index = new Map(drawn.parties.map((name, k) => [name, k]));
  const here = new Set(found.map((run) => run.party));
  const up = found.filter(isUp);
  const awaited = new Set(up.flatMap((run) => run.waiting));
  const lost = new Set(found.flatMap((run) => run.lost));
  const silent = new Set(found.filter((run) => run.state === "silent").map((run) => run.party));
  const conditions = new Map();
  for (const run of up) {
    for (const [other, condition] of Object.entries(run.links)) {
      const ends = [index.get(run.party), index.get(other)].sort((a, b) => a - b).join(" ");
      conditions.set(ends, (conditions.get(ends) ?? true) && isGood(condition));
    }
  }
  const lines = drawn.links.map(([a, b]) => {
    const good = conditions.get([a, b].sort((p, q) => p - q).join(" "));
    const kind = good === undefined ? "unknown" : good ? "connected" : "broken";
    return draw("line", { x1: x(a), y1: y(a), x2: x(b), y2: y(b), class: kind });
  });
  const radius = named ? 10 : Math.max(3, Math.min(9, 220 / drawn.parties.length));
  const nodes = drawn.parties.flatMap((name, k) => {
    const kinds = ["node"];
    if (here.has(name)) kinds.push("here");
    if (lost.has(name) || silent.has(name)) kinds.push("gone");
    else if (awaited.has(name)) kinds.push("awaited");
    const shape = here.has(name)
      ? draw("rect", { x: x(k) - radius, y: y(k) - radius, width: 2 * radius, height: 2 * radius, class: kinds.join(" ") })
      : draw("circle", { cx: x(k), cy: y(k), r: radius, class: kinds.join(" ") });
    shape.append(draw("title", {}, name));
    return named ? [shape, label(name, drawn.places[k], x(k), y(k))] : [shape];
  });
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told(drawn, up, lost) }, ...lines, ...nodes);
  return [svg, make("figcaption", {}, legend(up, lost.size + silent.size > 0))];
}

function label(name, [right, top], x, y) {
  const letters = [...name];
  const short = letters.length > NAME_LETTERS ? `${letters.slice(0, NAME_LETTERS - 1).join("")}\u2026` : name;
  const anchor = Math.abs(right) < 0.25 ? "middle" : right > 0 ? "start" : "end";
  const aside = anchor === "middle" ? 0 : 16 * Math.sign(right);
  const below = anchor === "middle" ? (top >= 0 ? -17 : 29) : 5 - 6 * top;
  return draw("text", { x: x + aside, y: y + below, "text-anchor": anchor }, short);
}

function told(drawn, up, lost) {
  const said = [`A network of ${drawn.parties.length} parties and ${drawn.n_links} links.`];
  for (const run of up) if (run.waiting.length) said.push(`${run.party} waits for ${list(run.waiting)}.`);
  if (lost.size) said.push(`Lost: ${list([...lost])}.`);
  return said.join(" ");
}

function legend(up, gone) {
  const said = ["Squares: on this computer."];
  if (up.length) said.push("Thick lines: links that stand; dashed: that do not.");
  if (up.some((run) => run.waiting.length)) said.push("A thick ring: waited for.");
  if (gone) said.push("Hollow: lost, or no sign of life.");
  return said.join(" ");
}

// What the server says

function take(message) {
  heard = Date.now();
  ahead = message.now - Date.now() / 1000;
  if (message.whole) runs.clear();
  for (const [digest, drawn] of Object.entries(message.networks ?? {})) networks.set(digest, drawn);
  for (const one of message.runs) {
    const before = runs.get(one.id);
    const samples = [...(before?.samples ?? []), ...one.samples].slice(-MOST_SAMPLES);
    if (before && before.state !== one.state) announce(one);
    runs.set(one.id, { ...one, samples });
  }
  const here = new Set(message.here);
  for (const id of [...runs.keys()]) if (!here.has(id)) runs.delete(id);
  if (message.runs.length || message.whole || groups.size) show();
  hide(at("left-out"), message.left_out === 0);
  write(at("left-out"), `${number(message.left_out)} files of runs are not shown: they cannot be read, others could have written them, or there are too many.`);
  if (message.log) log(message.log, message.whole);
}

function show() {
  const found = new Map();
  for (const run of runs.values()) {
    const key = `${run.run} ${run.consortium}`;
    found.set(key, [...(found.get(key) ?? []), run]);
  }
  for (const key of [...groups.keys()]) {
    if (!found.has(key)) {
      groups.get(key).element.remove();
      groups.delete(key);
    }
  }
  const last = (key) => Math.max(...found.get(key).map((run) => run.moved));
  const lively = (key) => found.get(key).some((run) => isUp(run) || run.state === "pending");
  const keys = [...found.keys()].sort((a, b) => lively(b) - lively(a) || last(b) - last(a) || (a < b ? -1 : 1));
  keys.forEach((key, place) => {
    if (!groups.has(key)) groups.set(key, new Group());
    const group = groups.get(key);
    settle(at("runs"), place, group.element);
    group.show(found.get(key).sort((a, b) => (a.party < b.party ? -1 : 1)));
  });
  hide(at("none"), keys.length > 0);
  write(at("none"), "No runs yet. They appear here by themselves.");
}

function announce(run) {
  const line = make("span", {}, `${run.party}, run ${run.run.slice(-8)}: ${WORDS[run.state] ?? run.state}. `);
  at("news").append(line);
  while (at("news").children.length > 5) at("news").firstChild.remove();
}

function log(lines, whole) {
  const place = at("log").querySelector("ol");
  const follows = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
  if (whole) place.replaceChildren();
  place.append(...lines.map((line) => make("li", {}, line)));
  while (place.children.length > MOST_LINES) place.firstChild.remove();
  hide(at("log"), place.children.length === 0);
  if (follows) place.scrollTop = place.scrollHeight;
}

// The connection

function connected(is) {
  const text = is
    ? "Connected."
    : "Not connected: what is shown may be old. Trying again; if that does not help, start the program, close other windows of this page, or open the printed address.";
  write(at("connection"), text);
  at("connection").classList.toggle("off", !is);
  document.body.classList.toggle("off", !is);
}

function connect() {
  source?.close();
  source = new EventSource("/events");
  source.onmessage = (event) => {
    connected(true);
    take(JSON.parse(event.data));
  };
  source.onerror = () => {
    connected(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN * 1000);
  };
}

setInterval(() => {
  for (const group of groups.values()) for (const seat of group.parts.values()) seat.tick();
  // A computer that has slept, or a way that has broken, says nothing of itself.
  if (heard && Date.now() - heard > 1000 * SILENCE && source.readyState !== EventSource.CLOSED) {
    heard = Date.now();
    connected(false);
    connect();
  }
}, 1000);
const redraw = () => groups.forEach((group) => group.parts.forEach((seat) => seat.chart.render()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("resize", redraw);
connect();
