// The page of one visit: code, numbers, a last look, sending, receipt.
//
// Numbers are in the table's fields and nowhere else. What is kept for this tab (in
// sessionStorage) is the sealed submission, so that sending it again sends the same
// bytes; a changed number is a correction with the next number and new shares.

import { decimalOf, decimalOfUnits, readCell, readFile, readText, splitText } from "./reading.js";
import { guestKey, guestOf, proofOf, readCode, submissionBytes, submissionOf } from "./sealing.js";
import { LANGUAGES, Refusal, preferred, say, shown } from "./words.js";

const MOST_LISTED = 20; // problems that are listed above the table; all are marked in it
const MOST_ANSWER = 300; // letters of the host's answer that are shown
const WAIT = 60_000; // milliseconds until a host that says nothing counts as away

const NOT_TAKEN = ["meanwhile", "refused", "closed"];

const $ = (id) => document.getElementById(id);
const submissions = $("survey").dataset.submissions;
const saved = location.protocol === "file:";

const state = {
  language: preferred(navigator.languages ?? [navigator.language]),
  survey: null,
  trouble: null, // why the page can do nothing
  guest: null,
  key: null,
  newest: null, // { number, digest } that the host has from this guest
  asked: false, // whether the host has answered
  cells: null, // whole numbers of units, once they are checked
  meanwhile: false, // whether a number has arrived that this tab did not send
  made: null, // the sealed submission: { guest, number, digest, text, confirmed }
  outcome: null, // what came of sending it
  refusals: {}, // by the id of the place where they are shown
};
const inputs = [];
const problems = new Map(); // by cell

// ----------------------------------------------------------------------------- showing

const said = (word, gaps) => say(state.language, word, gaps);
const refusalText = (refusal) => said(refusal.word, refusal.gaps);

function put(id, text, visible = true) {
  const place = $(id);
  // Set only what changed: a screen reader would say the rest again.
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !visible;
}

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// What this guest has sealed here and the host has not confirmed: it goes out before any
// correction, since its number may have arrived and is never sealed a second time.
function pending() {
  const { made, guest } = state;
  return made && made.guest === guest?.name && !made.confirmed && !made.refused ? made : null;
}

function nextNumber() {
  return Math.max(pending()?.number ?? 0, state.newest?.number ?? 0) + 1;
}

// What the host says it has, against what was sealed here.
function learn(newest) {
  Object.assign(state, { newest, asked: true });
  const made = pending();
  if (!made || !newest || newest.number < made.number) return;
  if (newest.digest === made.digest) {
    made.confirmed = true;
    keep();
  } else forget(); // its number has been taken by another tab or computer
}

function render() {
  document.documentElement.lang = state.language;
  for (const place of document.querySelectorAll("[data-word]")) {
    place.textContent = said(place.dataset.word);
  }
  $("languages").setAttribute("aria-label", said("language"));
  for (const button of $("languages").children) {
    button.setAttribute("aria-pressed", String(button.value === state.language));
  }
  put("trouble", state.trouble ? refusalText(state.trouble) : "", Boolean(state.trouble));
  const { survey } = state;
  $("all").hidden = !survey || Boolean(state.trouble);
  if (!survey) return;
  const delegates = survey.delegates.map(({ name }) => name).join(", ");
  document.title = survey.title;
  put("title", survey.title);
  put("question", survey.question ?? "", Boolean(survey.question));
  put("asks", said("asks", { names: survey.members?.join(", ") || delegates }));
  put("closes", said("closes", { date: dateText(survey.closes) }), Boolean(survey.closes));
  put("what-sealed", said("what_sealed", { count: survey.delegates.length, names: delegates }));
  put("what-totals", said("what_totals", { minimum: survey.minimum_guests }));
  put("what-empty", said(hasZero() ? "what_empty" : "what_empty_seen"));
  // Who sees no more than sums over how many, as the proof has it: minimum_honest others.
  put("what-hidden", said(survey.tolerate > 0 ? "what_hidden" : "what_hidden_outside", {
    tolerate: survey.tolerate, guests: survey.tolerate_guests, honest: survey.minimum_honest + 1,
  }));
  put("what-more", said("what_more", { tolerate: survey.tolerate }));
  put("what-trust", said(saved ? "what_file" : "what_trust"));
  $("what-link").hidden = saved;
  put("digest", survey.digest);
  const hint = said("numbers_hint", {
    unit: decimalOf(survey.unit), low: decimalOf(survey.low), high: decimalOf(survey.high),
  });
  put("numbers-hint", hasZero() ? `${hint} ${said("numbers_zero")}` : hint);
  for (const id of ["code-problem", "file-problem", "confirm-problem"]) {
    const refusal = state.refusals[id];
    put(id, refusal ? refusalText(refusal) : "", Boolean(refusal));
  }
  $("code-step").hidden = Boolean(state.guest);
  $("code").setAttribute("aria-invalid", String(Boolean(state.refusals["code-problem"])));
  renderNumbers();
  renderConfirm();
  renderSent();
}

// Whether somebody who has no number for a cell can type 0 instead.
const hasZero = () =>
  decimalOf(state.survey.low).whole <= 0n && decimalOf(state.survey.high).whole >= 0n;

function dateText(closes) {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(closes ?? "")) return closes ?? "";
  const locale = state.language === "en" ? "en-GB" : state.language;
  const format = new Intl.DateTimeFormat(locale, { dateStyle: "long", timeZone: "UTC" });
  return format.format(new Date(closes));
}

function renderNumbers() {
  if (!state.guest) return;
  const { newest } = state;
  put("answering", said("answering", { name: state.guest.name }));
  const correcting = newest
    ? said("correction", { number: newest.number, next: nextNumber() })
    : "";
  put("correction", correcting, Boolean(newest));
  $("later").hidden = state.asked;
  for (const [cell, refusal] of problems) $(`problem-${cell}`).textContent = refusalText(refusal);
  const summary = $("problems");
  if (summary.hidden) return;
  const heading = problems.size === 1 ? said("problems_one") : said("problems", { count: problems.size });
  const list = element("ul");
  for (const [cell, refusal] of [...problems].slice(0, MOST_LISTED)) {
    const line = said("at_cell", {
      row: state.survey.rows[Math.floor(cell / state.survey.columns.length)],
      column: state.survey.columns[cell % state.survey.columns.length],
      problem: refusal,
    });
    const link = element("a", line, { href: `#cell-${cell}` });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      inputs[cell].focus();
    });
    const item = element("li");
    item.append(link);
    list.append(item);
  }
  if (problems.size > MOST_LISTED) {
    list.append(element("li", said("problems_more", { count: problems.size - MOST_LISTED })));
  }
  summary.replaceChildren(element("strong", heading), list);
}

function renderConfirm() {
  const { survey, cells, newest } = state;
  $("confirm-step").hidden = !cells;
  if (!cells) {
    tableOf($("confirm-table"), []);
    return;
  }
  const filled = cells.filter((units) => units !== null).length;
  put("confirm-filled", filled
    ? said("confirm_filled", { filled, cells: cells.length, empty: cells.length - filled })
    : said("confirm_none"));
  // Before anything is sealed: this is the one thing of the table that is not.
  const some = filled < cells.length;
  const empty = said(hasZero() ? "confirm_empty" : "confirm_empty_seen");
  put("confirm-empty", some ? empty : "", some);
  const size = Math.ceil(submissionBytes(cells.length, survey.delegates.length) / 1000);
  const number = nextNumber();
  put("confirm-send", `${said("confirm_send", { size })} ${said("confirm_number", { number })}`);
  put("meanwhile", state.meanwhile
    ? said("meanwhile", { number: newest.number, next: number })
    : "", state.meanwhile);
  put("send", number > 1 ? said("send_correction", { number }) : said("send_button"));
  tableOf($("confirm-table"), cells.map((units) => {
    if (units === null) return element("td", said("empty"), { class: "empty" });
    return element("td", shown(decimalOfUnits(units, survey.unit), state.language));
  }), "confirm-");
}

function renderSent() {
  const { made, outcome } = state;
  $("sent-step").hidden = !made || !outcome;
  if (!made || !outcome) return;
  put("outcome", said(outcome.word, outcome.gaps));
  $("outcome").classList.toggle("bad", outcome.bad);
  const lines = receiptLines();
  $("receipt").replaceChildren(
    ...lines.flatMap(([name, value]) => [element("dt", name), element("dd", value)]),
  );
  put("set-line", setLine());
  $("save").classList.toggle("main", made.confirmed);
  $("again").classList.toggle("main", !made.confirmed);
  // What the host will not take has no receipt and is not sent again.
  for (const id of ["receipt", "receipt-compare", "set-line", "save", "again"]) {
    $(id).hidden = NOT_TAKEN.includes(outcome.word);
  }
}

const setLine = () => `${state.made.guest}\t${state.made.number}\t${state.made.digest}`;

function receiptLines() {
  const { survey, made } = state;
  return [
    [said("receipt_survey"), survey.title],
    [said("digest"), survey.digest],
    [said("receipt_guest"), made.guest],
    [said("receipt_number"), String(made.number)],
    [said("receipt_digest"), made.digest],
    [said("receipt_bytes"), String(made.text.length)],
  ];
}

// A table with the survey's names around given cells, in row-major order.
function tableOf(table, cells, prefix = "") {
  const { rows, columns } = state.survey;
  table.querySelector("thead")?.remove();
  table.querySelector("tbody")?.remove();
  if (cells.length === 0) return;
  const head = element("tr");
  head.append(element("td"));
  columns.forEach((name, at) => {
    head.append(element("th", name, { scope: "col", id: `${prefix}column-${at}` }));
  });
  const body = element("tbody");
  rows.forEach((name, at) => {
    const row = element("tr");
    row.append(element("th", name, { scope: "row", id: `${prefix}row-${at}` }));
    row.append(...cells.slice(at * columns.length, (at + 1) * columns.length));
    body.append(row);
  });
  const top = element("thead");
  top.append(head);
  table.append(top, body);
}

function go(step) {
  const heading = $(`${step}-title`);
  heading.focus({ preventScroll: true });
  heading.scrollIntoView({ block: "start" });
}

function busy(word) {
  put("status", word ? said(word) : "");
  for (const id of ["send", "back", "check", "clear", "again", "correct"]) {
    $(id).disabled = Boolean(word);
  }
}

// ------------------------------------------------------------------------ the code

$("code-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  if (button.disabled) return;
  button.disabled = true;
  delete state.refusals["code-problem"];
  try {
    const letters = await readCode($("code").value);
    const key = await guestKey(letters);
    const guest = await guestOf(key, state.survey.guests);
    Object.assign(state, { guest, key });
    await askQuietly();
    $("code").value = "";
    $("numbers-step").hidden = false;
    render();
    go("numbers");
  } catch (error) {
    state.refusals["code-problem"] = refused(error);
    render();
    $("code").focus();
  } finally {
    button.disabled = false;
  }
});

// Whatever went wrong, as a sentence; what nobody foresaw is said too.
function refused(error) {
  if (error instanceof Refusal) return error;
  if (error?.name === "NotSupportedError") return new Refusal("old_browser");
  return new Refusal("unexpected", { what: String(error?.message ?? error).slice(0, MOST_ANSWER) });
}

// ----------------------------------------------------------------------- the numbers

const sign = () => document.querySelector("input[name=sign]:checked").value;

function buildTable() {
  const { rows, columns } = state.survey;
  const cells = [];
  rows.forEach((_, row) => {
    columns.forEach((__, column) => {
      const at = inputs.length;
      const input = element("input", "", {
        type: "text", inputmode: "text", autocomplete: "off", id: `cell-${at}`, maxlength: "60",
        "aria-labelledby": `row-${row} column-${column}`,
      });
      inputs.push(input);
      const cell = element("td");
      cell.append(input);
      cells.push(cell);
    });
  });
  tableOf($("table"), cells);
}

function mark(cell, refusal) {
  const input = inputs[cell];
  if (refusal) {
    problems.set(cell, refusal);
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", `problem-${cell}`);
    if (!$(`problem-${cell}`)) {
      input.after(element("span", "", { id: `problem-${cell}`, class: "problem" }));
    }
    $(`problem-${cell}`).textContent = refusalText(refusal);
  } else if (problems.delete(cell)) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
    $(`problem-${cell}`).remove();
  }
}

function readInput(cell) {
  try {
    const units = readCell(inputs[cell].value, state.survey, sign());
    mark(cell, null);
    return units;
  } catch (error) {
    mark(cell, refused(error));
    return null;
  }
}

// What was read before no longer counts.
function changed() {
  if (state.cells) {
    Object.assign(state, { cells: null, meanwhile: false });
    renderConfirm();
  }
}

function fill(texts, row = 0, column = 0) {
  changed();
  texts.forEach((line, down) => {
    line.forEach((text, across) => {
      const cell = (row + down) * state.survey.columns.length + column + across;
      inputs[cell].value = text;
      readInput(cell);
    });
  });
  $("problems").hidden = true;
}

const cellOf = (target) => inputs.indexOf(target);

$("table").addEventListener("input", (event) => {
  changed();
  mark(cellOf(event.target), null);
});

// A cell is read when the next one is entered. Not when a button is pressed: a message
// that appears then would move the button away from under the pointer.
$("table").addEventListener("focusout", (event) => {
  if (inputs.includes(event.relatedTarget)) readInput(cellOf(event.target));
});

$("table").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  const step = state.survey.columns.length * (event.shiftKey ? -1 : 1);
  inputs[cellOf(event.target) + step]?.focus();
});

$("table").addEventListener("paste", (event) => {
  const text = event.clipboardData?.getData("text/plain") ?? "";
  if (!/[\t\n]/.test(text.trimEnd())) return; // one cell: an ordinary paste
  event.preventDefault();
  const cell = cellOf(event.target);
  const { rows, columns } = state.survey;
  const [row, column] = [Math.floor(cell / columns.length), cell % columns.length];
  const block = splitText(text, "\t");
  const width = Math.max(...block.map((line) => line.length));
  delete state.refusals["file-problem"];
  try {
    let [texts, at] = [block.map((line) => line.map((each) => each.trim())), [row, column]];
    if (row + block.length > rows.length || column + width > columns.length) {
      if (cell !== 0) {
        throw new Refusal("paste_room", {
          rows: block.length, columns: width,
          room_rows: rows.length - row, room_columns: columns.length - column,
        });
      }
      [texts, at] = [readText(text, state.survey), [0, 0]]; // perhaps with names around it
    }
    fill(texts, ...at);
    put("status", said("pasted", { count: texts.flat().length }));
  } catch (error) {
    state.refusals["file-problem"] = refused(error);
  }
  render();
});

$("file").addEventListener("change", async () => {
  const [file] = $("file").files;
  if (!file) return;
  delete state.refusals["file-problem"];
  try {
    fill(await readFile(file, state.survey, sign()));
    put("status", said("uploaded", { file: file.name }));
  } catch (error) {
    state.refusals["file-problem"] = refused(error);
  }
  $("file").value = ""; // so that the same file can be chosen again after a change
  render();
});

$("signs").addEventListener("change", () => {
  changed();
  inputs.forEach((input, cell) => {
    if (input.value !== "") readInput(cell);
  });
});

$("clear").addEventListener("click", () => {
  changed();
  inputs.forEach((input, cell) => {
    input.value = "";
    mark(cell, null);
  });
  $("problems").hidden = true;
  put("status", said("cleared"));
});

$("check").addEventListener("click", () => {
  const cells = inputs.map((_, cell) => readInput(cell));
  $("problems").hidden = problems.size === 0;
  delete state.refusals["confirm-problem"];
  state.cells = problems.size === 0 ? cells : null;
  render();
  if (problems.size) $("problems").focus();
  else go("confirm");
});

// ------------------------------------------------------------------------- sending

// Ask the host; a refusal where it cannot be reached or answers something else.
async function request(address, options = {}) {
  try {
    return await fetch(address, {
      cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(WAIT), ...options,
    });
  } catch {
    throw new Refusal("host_away");
  }
}

const receiptIn = (answer) =>
  Number.isSafeInteger(answer?.number) && /^[0-9a-f]{64}$/.test(answer?.digest ?? "")
    ? { number: answer.number, digest: answer.digest }
    : null;

async function askNewest() {
  const { guest, key, survey } = state;
  const proof = await proofOf(key, survey.digest);
  const headers = { Authorization: `Veilsum-Guest ${proof}` }; // proxies log addresses
  const answer = await request(`${submissions}/${guest.key}`, { headers });
  if (answer.status === 404 || answer.status === 204) return null;
  const newest = answer.ok ? receiptIn(parsed(await answer.text().catch(() => ""))) : null;
  if (newest === null) throw new Refusal("host_away");
  return newest;
}

async function askQuietly() {
  try {
    learn(await askNewest());
  } catch {
    state.asked = false;
  }
}

$("back").addEventListener("click", () => {
  changed();
  go("numbers");
});

$("send").addEventListener("click", async () => {
  const promised = nextNumber(); // what the button says
  delete state.refusals["confirm-problem"];
  busy("asking");
  try {
    learn(await askNewest());
    if (nextNumber() !== promised) {
      state.meanwhile = true;
      return;
    }
    const { guest, key, survey, cells } = state;
    if (pending()) {
      await post("sent");
      if (!state.made.confirmed) return;
    }
    busy("sealing");
    const begun = performance.now();
    const { text, digest } = await submissionOf(survey, guest, key, promised, cells);
    performance.measure("sealing", { start: begun });
    state.made = { guest: guest.name, number: promised, digest, text, confirmed: false };
    state.meanwhile = false;
    keep();
    await post("sent");
  } catch (error) {
    state.refusals["confirm-problem"] = refused(error);
  } finally {
    busy(null);
    render();
    if (!$("confirm-step").hidden) return;
    $("numbers-step").hidden = true;
    go("sent");
  }
});

// Send what is sealed, and nothing else: the first time and every time after that.
async function post(success) {
  busy("sending");
  const { made } = state;
  const away = (word, gaps = {}) => { state.outcome = { word, gaps, bad: true }; };
  state.cells = null;
  let answer;
  try {
    answer = await request(submissions, {
      method: "POST", headers: { "content-type": "application/json" }, body: made.text,
    });
  } catch {
    away("unsent");
    return;
  }
  const text = (await answer.text().catch(() => "")).trim();
  if (answer.ok) {
    let arrived = receiptIn(parsed(text));
    if (arrived === null && state.guest) arrived = await askNewest().catch(() => null);
    if (arrived === null) away("unsent");
    else if (arrived.digest !== made.digest) away("sent_other");
    else {
      made.confirmed = true;
      state.outcome = { word: success, gaps: {}, bad: false };
      if (state.guest?.name === made.guest) state.newest = arrived;
      keep();
    }
    return;
  }
  if (answer.status === 429 || answer.status >= 500) {
    away("busy");
    return;
  }
  forget(); // the host has looked at it and will not take it
  const newest = receiptIn(parsed(text));
  if (newest && state.guest?.name === made.guest) state.newest = newest;
  if (answer.status === 409 && newest?.number >= made.number) {
    away("meanwhile", { number: newest.number, next: newest.number + 1 });
  } else if (answer.status === 410) away("closed");
  else {
    const reason = parsed(text)?.error ?? text;
    const plain = typeof reason === "string" && reason !== "" && !reason.startsWith("<");
    away("refused", {
      answer: plain
        ? reason.slice(0, MOST_ANSWER)
        : new Refusal("refused_status", { status: answer.status }),
    });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// ------------------------------------------------------------------------- the receipt

const place = () => `veilsum ${state.survey.digest}`;

function keep() {
  try {
    sessionStorage.setItem(place(), JSON.stringify(state.made));
  } catch {
    // No room or not allowed: then it is kept until the tab is closed or loaded again.
  }
}

function forget() {
  state.made.refused = true;
  try {
    sessionStorage.removeItem(place());
  } catch {
    // Then nothing was kept.
  }
}

function found() {
  try {
    const made = parsed(sessionStorage.getItem(place()) ?? "null");
    return typeof made?.text === "string" ? made : null;
  } catch {
    return null;
  }
}

$("again").addEventListener("click", async () => {
  try {
    await post("again_same");
  } finally {
    busy(null);
    render();
  }
});

$("correct").addEventListener("click", () => {
  if (state.guest) state.outcome = null;
  $("numbers-step").hidden = !state.guest;
  $("code-again").hidden = false;
  render();
  go(state.guest ? "numbers" : "code");
});

$("save").addEventListener("click", () => {
  const lines = receiptLines().map(([name, value]) => `${name}: ${value}`);
  const text = [said("receipt_head"), "", ...lines, "", said("receipt_compare"), "", setLine(), ""];
  const link = element("a", "", {
    href: URL.createObjectURL(new Blob([text.join("\n")], { type: "text/plain" })),
    download: `receipt-${state.made.digest.slice(0, 8)}-${state.made.number}.txt`,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), WAIT);
});

window.addEventListener("beforeunload", (event) => {
  const typed = inputs.some((input) => input.value !== "");
  if (typed && !state.made?.confirmed) event.preventDefault();
});

$("languages").addEventListener("click", (event) => {
  if (!LANGUAGES.includes(event.target.value)) return;
  state.language = event.target.value;
  render();
});

// ------------------------------------------------------------------------ the survey

function checked(survey) {
  const text = (value) => typeof value === "string" && value !== "" && !/[\u0000-\u001f\u007f]/.test(value);
  const keyed = (each) => text(each?.name) && /^[0-9a-f]{64}$/.test(each?.key ?? "");
  const names = (list) => Array.isArray(list) && list.length > 0 && list.every(text);
  const wanted = {
    digest: /^[0-9a-f]{64}$/.test(survey?.digest ?? ""),
    title: text(survey?.title),
    rows: names(survey?.rows),
    columns: names(survey?.columns),
    delegates: Array.isArray(survey?.delegates) && survey.delegates.length > 0 && survey.delegates.every(keyed),
    guests: Array.isArray(survey?.guests) && survey.guests.every(keyed),
  };
  for (const field of ["minimum_guests", "minimum_honest", "tolerate", "tolerate_guests"]) {
    wanted[field] = Number.isSafeInteger(survey?.[field]);
  }
  for (const field of ["unit", "low", "high"]) {
    try {
      const { whole } = decimalOf(survey[field]);
      wanted[field] = field !== "unit" || whole > 0n;
    } catch {
      wanted[field] = false;
    }
  }
  const wrong = Object.keys(wanted).filter((field) => !wanted[field]);
  if (wrong.length > 0) throw new Refusal("broken_survey", { what: wrong.join(", ") });
  return survey;
}

async function begin() {
  render();
  try {
    if (!globalThis.isSecureContext) throw new Refusal("unsafe_page");
    let text = $("survey").textContent.trim();
    if (text === "") {
      const answer = await request("survey.json").catch(() => null);
      if (!answer?.ok) throw new Refusal("no_survey");
      text = await answer.text();
    }
    state.survey = checked(parsed(text));
    buildTable();
    state.made = found();
    if (state.made) {
      const word = state.made.confirmed ? "sent" : "unsent_found";
      state.outcome = { word, gaps: {}, bad: !state.made.confirmed };
    }
  } catch (error) {
    state.trouble = refused(error);
  }
  render();
}

begin();
