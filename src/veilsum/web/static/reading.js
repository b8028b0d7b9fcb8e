// From what people type, paste or upload to whole numbers of the survey's unit.
//
// Numbers stay text and whole numbers of any size all the way: nothing is rounded, and
// nothing is guessed. What can be read in two ways is refused with both readings until
// the guest has chosen a decimal sign. No page here: this file also runs in Node.

import { Refusal } from "./words.js";

export const MOST_FILE_BYTES = 1_000_000;
const MOST_UNPACKED_BYTES = 16_000_000;
const MOST_LETTERS = 40;
const MOST_SHEET_COLUMNS = 16_384;
const MOST_AROUND = 100; // empty rows or columns beside a table

// ----------------------------------------------------------------------------- numbers

// A decimal is whole / 10^places. This reads what machines write: 0.01, 1e-7, -5.
export function decimalOf(text) {
  const found = /^(-?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,3}))?$/.exec(String(text));
  if (!found || found[2] + found[3] === "") throw new Error(`${text} is no decimal`);
  const [, minus, before, after, exponent] = found;
  const shift = after.length - Number(exponent ?? 0);
  const digits = BigInt(minus + before + after) * 10n ** BigInt(Math.max(0, -shift));
  return { whole: digits, places: Math.max(0, shift) };
}

function compared(a, b) {
  const difference = a.whole * 10n ** BigInt(b.places) - b.whole * 10n ** BigInt(a.places);
  return difference < 0n ? -1 : Number(difference > 0n);
}

// So many units, as a decimal.
export function decimalOfUnits(units, unit) {
  const one = decimalOf(unit);
  return { whole: units * one.whole, places: one.places };
}

// One reading of digits with a given decimal sign, or null: groups of three digits
// before it, separated by one sign that is not the decimal sign; none after it.
function readWith(body, sign) {
  const parts = body.split(sign);
  if (parts.length > 2 || (parts.length === 2 && !/^\d+$/.test(parts[1]))) return null;
  const [before, after = ""] = parts;
  const other = sign === "," ? "\\." : ",";
  const grouped = new RegExp(`^[1-9]\\d{0,2}(?:(?: \\d{3})+|(?:'\\d{3})+|(?:${other}\\d{3})+)$`);
  const plain = /^\d*$/.test(before) && before + after !== "";
  if (!plain && !grouped.test(before)) return null;
  return { whole: BigInt(before.replace(/\D/g, "") + after), places: after.length };
}

// The decimal in a cell, or null where the cell is empty. `sign` is the decimal sign,
// "," or ".", or "ask": then both are tried, and two different readings are refused.
export function readNumber(text, sign = "ask") {
  const typed = text
    .replace(/[\s\u00a0\u2007\u2009\u202f]+/g, " ")
    .trim()
    .replace(/[\u2019\u02bc]/g, "'")
    .replace(/[\u2212\u2010\u2011\u2013\u2014\ufe63\uff0d]/g, "-");
  if (typed === "") return null;
  if (typed.length > MOST_LETTERS) throw new Refusal("number_long");
  if (/[%\u2030]/.test(typed)) throw new Refusal("number_percent");
  if (/[()[\]]/.test(typed)) throw new Refusal("number_brackets");
  if (/^-+$/.test(typed)) throw new Refusal("number_dash");
  if (/^[-+]? ?[\d.,]+ ?[eE] ?[-+]?\d+$/.test(typed)) throw new Refusal("number_exponent");
  const found = /^([-+]?) ?([\d.,' ]*\d) ?(-?)$/.exec(typed);
  if (!found || (found[1] && found[3])) throw new Refusal("number_not", { text: typed });
  const [, before, body, after] = found;
  const negative = before === "-" || after === "-";
  const signs = sign === "ask" ? [",", "."] : [sign];
  const readings = signs.map((each) => readWith(body, each)).filter(Boolean);
  if (readings.length === 0) {
    const otherwise = sign !== "ask" && readWith(body, sign === "," ? "." : ",");
    throw new Refusal(otherwise ? "number_sign" : "number_grouped", { text: typed });
  }
  const [first, second = first] = readings;
  if (compared(first, second) !== 0) {
    throw new Refusal("number_two", {
      text: typed, first, second,
    });
  }
  return { whole: negative ? -first.whole : first.whole, places: first.places };
}

// The whole number of units in a cell (BigInt), or null; in range and exact, or refused.
export function readCell(text, survey, sign = "ask") {
  const number = readNumber(text, sign);
  if (number === null) return null;
  const unit = decimalOf(survey.unit);
  const above = number.whole * 10n ** BigInt(unit.places);
  const below = unit.whole * 10n ** BigInt(number.places);
  if (above % below !== 0n) {
    throw new Refusal("number_multiple", { text: number, unit });
  }
  const [low, high] = [decimalOf(survey.low), decimalOf(survey.high)];
  if (compared(number, low) < 0) {
    throw new Refusal("number_low", { text: number, low });
  }
  if (compared(number, high) > 0) {
    throw new Refusal("number_high", { text: number, high });
  }
  return above / below;
}

// ------------------------------------------------------------------------------- grids

// The cells of a text with a given separator; "..." holds separators and line ends.
export function splitText(text, separator) {
  const rows = [[]];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') cell += text[(at += 1)];
      else quoted = false;
    } else if (letter === '"' && cell.trim() === "") {
      quoted = true;
      cell = "";
    } else if (letter === separator) {
      rows.at(-1).push(cell);
      cell = "";
    } else if (letter === "\n") {
      rows.at(-1).push(cell);
      cell = "";
      rows.push([]);
    } else if (letter !== "\r") {
      cell += letter;
    }
  }
  rows.at(-1).push(cell);
  const last = rows.at(-1);
  if (rows.length > 1 && last.length === 1 && last[0] === "") rows.pop();
  return rows;
}

const plainName = (text) => text.normalize("NFC").replace(/\s+/g, " ").trim().toLowerCase();

const sameNames = (found, wanted) =>
  found.length === wanted.length &&
  [...found.map(plainName)].sort().join("\n") === [...wanted.map(plainName)].sort().join("\n");

const someNames = (found, wanted) => {
  const known = new Set(wanted.map(plainName));
  return found.some((name) => known.has(plainName(name)));
};

// Rows (or columns) without the empty ones around the table. Within it, empty ones are
// cells left empty; where both are possible, all are left, and the shape is refused.
function cut(lines, wanted) {
  const empty = lines.map((line) => line.every((text) => text.trim() === ""));
  const first = empty.indexOf(false);
  if (first < 0) return lines;
  const behind = lines.length - 1 - empty.lastIndexOf(false);
  if (someNames(lines[first], wanted.across)) {
    const most = Math.max(0, lines.length - first - 1 - wanted.along.length);
    return lines.slice(first, lines.length - Math.min(behind, most));
  }
  const excess = Math.max(0, lines.length - wanted.along.length);
  if (first > excess || (first > 0 && first + behind > excess)) return lines;
  return lines.slice(first, lines.length - Math.min(behind, excess));
}

const turned = (grid) => grid[0].map((_, at) => grid.map((line) => line[at]));

// A grid cut to the table: texts in its rows and columns, whatever order the names have.
export function fitted(grid, survey) {
  const { rows, columns } = survey;
  let width = grid.reduce((most, row) => Math.max(most, row.length), 0);
  const refused = (height) =>
    new Refusal("grid_shape", {
      rows: rows.length, columns: columns.length, found_rows: height, found_columns: width,
    });
  if (width > columns.length + MOST_AROUND || grid.length > rows.length + MOST_AROUND) {
    throw refused(grid.length);
  }
  let cells = grid.map((row) => Array.from({ length: width }, (_, at) => row[at] ?? ""));
  cells = cut(cells, { along: rows, across: columns });
  cells = turned(cut(turned(cells), { along: columns, across: rows }));
  width = cells[0].length;
  const named = width === columns.length + 1;
  const wide = width === columns.length || named;
  const top = cells[0].slice(-columns.length);
  const headed = wide && sameNames(top, columns);
  if (wide && !headed && someNames(top, columns)) throw namesRefused(top, columns);
  const stubs = cells.slice(headed ? 1 : 0).map((row) => row[0]);
  if (named && someNames(stubs, rows) && !sameNames(stubs, rows)) throw namesRefused(stubs, rows);
  if (stubs.length !== rows.length || !wide || (named && !sameNames(stubs, rows))) {
    throw refused(stubs.length);
  }
  const place = (names, wanted) =>
    wanted.map((name) => names.findIndex((each) => plainName(each) === plainName(name)));
  const across = headed ? place(top, columns) : columns.map((_, at) => at);
  const down = named ? place(stubs, rows) : rows.map((_, at) => at);
  const numbers = cells.slice(headed ? 1 : 0).map((row) => row.slice(-columns.length));
  return down.map((row) => across.map((column) => numbers[row][column].trim()));
}

function namesRefused(found, wanted) {
  const lacking = (these, those) => {
    const known = new Set(those.map(plainName));
    const names = these.filter((name) => !known.has(plainName(name))).slice(0, 5);
    return names.map((name) => `“${name.trim().slice(0, 60)}”`).join(", ") || "–";
  };
  return new Refusal("grid_names", {
    missing: lacking(wanted, found), extra: lacking(found, wanted),
  });
}

// A text as a table. Tabs are what spreadsheets copy; where there are semicolons, commas
// are decimal signs more often than not; so the first separator that fits is the one.
export function readText(text, survey) {
  const separators = ["\t", ";", ",", ""].filter((sign) => text.includes(sign));
  let refusal = null;
  for (const separator of separators) {
    try {
      return fitted(splitText(text, separator), survey);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refusal ??= error;
    }
  }
  throw refusal;
}

function textOf(bytes) {
  const starts = (...first) => first.every((byte, at) => bytes[at] === byte);
  if (starts(0xff, 0xfe)) return new TextDecoder("utf-16le").decode(bytes);
  if (starts(0xfe, 0xff)) return new TextDecoder("utf-16be").decode(bytes);
  if (bytes.includes(0)) throw new Refusal("file_binary");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes); // older spreadsheets' CSV
  }
}

// A file as a table of texts; too large a file is refused before a byte is read.
export async function readFile(file, survey, sign = "ask") {
  if (file.size > MOST_FILE_BYTES) {
    throw new Refusal("file_large", {
      size: Math.ceil(file.size / 1000), most: MOST_FILE_BYTES / 1000,
    });
  }
  let bytes;
  try {
    bytes = new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Refusal("file_failed");
  }
  const begins = hexOf(bytes.subarray(0, 4));
  if (begins === "d0cf11e0") throw new Refusal("file_old");
  if (begins === "504b0304") return fitted(await sheetOf(bytes, sign), survey);
  return readText(textOf(bytes), survey);
}

const hexOf = (bytes) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// ------------------------------------------------------------------------- spreadsheets

// Where the parts of a zip archive lie, by name, from the directory at its end.
function partsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end -= 1;
  if (end < 0) throw new Refusal("file_broken");
  const parts = new Map();
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left -= 1) {
    if (view.getUint32(at, true) !== 0x02014b50) throw new Refusal("file_broken");
    const [name, extra, comment] = [28, 30, 32].map((field) => view.getUint16(at + field, true));
    const start = view.getUint32(at + 42, true);
    const data = start + 30 + view.getUint16(start + 26, true) + view.getUint16(start + 28, true);
    parts.set(new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + name)), {
      method: view.getUint16(at + 10, true),
      packed: bytes.subarray(data, data + view.getUint32(at + 20, true)),
    });
    at += 46 + name + extra + comment;
  }
  return parts;
}

// The text of a part, unpacked piece by piece so that a small file cannot become huge.
async function partText(part) {
  if (part === undefined) return "";
  if (part.method !== 0 && part.method !== 8) throw new Refusal("file_broken");
  let stream = new Blob([part.packed]).stream();
  if (part.method === 8) {
    if (typeof DecompressionStream === "undefined") throw new Refusal("file_unpack");
    stream = stream.pipeThrough(new DecompressionStream("deflate-raw"));
  }
  const decoder = new TextDecoder();
  let [text, size] = ["", 0];
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > MOST_UNPACKED_BYTES) {
      reader.cancel().catch(() => {});
      throw new Refusal("file_large", {
        size: `> ${MOST_UNPACKED_BYTES / 1000}`, most: MOST_UNPACKED_BYTES / 1000,
      });
    }
    text += decoder.decode(value, { stream: true });
  }
}

const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

const unescaped = (text) =>
  text.replace(/&(?:#x([\da-f]{1,6})|#(\d{1,7})|(\w+));/gi, (whole, sixteen, ten, name) => {
    if (name) return NAMED[name] ?? whole;
    const point = sixteen ? Number.parseInt(sixteen, 16) : Number(ten);
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });

// The tags of an XML text in order, each with the text that follows it.
function* tagsOf(xml) {
  for (let at = xml.indexOf("<"); at >= 0; ) {
    const end = xml.indexOf(">", at);
    if (end < 0) throw new Refusal("file_broken");
    const next = xml.indexOf("<", end);
    const inside = xml.slice(at + 1, end);
    if (inside.startsWith("!")) throw new Refusal("file_broken"); // no entities, no DTD
    const name = /^\/?(?:[\w.-]+:)?([\w.-]+)/.exec(inside)?.[1] ?? "";
    yield {
      name,
      closes: inside.startsWith("/"),
      alone: inside.endsWith("/"),
      attribute: (key) => {
        const found = new RegExp(`(?:^|\\s)${key}="([^"]*)"`).exec(inside);
        return found === null ? null : unescaped(found[1]);
      },
      text: unescaped(xml.slice(end + 1, next < 0 ? xml.length : next)),
    };
    at = next;
  }
}

// Which cell styles show percentages or dates.
function stylesOf(xml) {
  const codes = new Map();
  const styles = [];
  let inside = false;
  for (const tag of tagsOf(xml)) {
    if (tag.name === "numFmt") codes.set(tag.attribute("numFmtId"), tag.attribute("formatCode"));
    if (tag.name === "cellXfs") inside = !tag.closes;
    if (!inside || tag.name !== "xf" || tag.closes) continue;
    const format = Number(tag.attribute("numFmtId"));
    const code = (codes.get(String(format)) ?? "").replace(/"[^"]*"|\[[^\]]*\]|\\./g, "");
    if (format === 9 || format === 10 || code.includes("%")) styles.push("percent");
    else if ((format >= 14 && format <= 22) || (format >= 45 && format <= 47) || /[ymdhs]/i.test(code)) {
      styles.push("date");
    } else styles.push("number");
  }
  return styles;
}

// A number of a spreadsheet is a double; people see at most 15 digits of it, and these
// are read. Three digits after the sign get a fourth: so there is only one reading.
function numberText(value, style, sign) {
  const number = Number(value);
  if (!Number.isFinite(number) || value.trim() === "") return value;
  if (style === "percent") return `${Number((number * 100).toPrecision(15))} %`;
  if (style === "date") return `#date ${value}`;
  const { whole, places } = decimalOf(Number(number.toPrecision(15)));
  const digits = String(whole < 0n ? -whole : whole).padStart(places + 1, "0");
  const [before, after] = [digits.slice(0, digits.length - places), digits.slice(digits.length - places)];
  if (places === 0) return (whole < 0n ? "-" : "") + digits;
  const mark = sign === "," ? "," : ".";
  return (whole < 0n ? "-" : "") + before + mark + after + (places === 3 ? "0" : "");
}

// The texts of the one sheet of an XLSX file.
async function sheetOf(bytes, sign) {
  let texts;
  try {
    const parts = partsOf(bytes);
    const [book, strings, styles, sheet] = await Promise.all(
      ["workbook", "sharedStrings", "styles", "worksheets/sheet1"].map((name) =>
        partText(parts.get(`xl/${name}.xml`)),
      ),
    );
    if (sheet === "") throw new Refusal("file_broken");
    const count = [...tagsOf(book)].filter(({ name, closes }) => name === "sheet" && !closes).length;
    if (count > 1) throw new Refusal("file_sheets", { count });
    texts = cellsOf(sheet, stringsOf(strings), stylesOf(styles), sign);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal("file_broken"); // lengths that lead outside of the file, bad packing
  }
  return texts;
}

function stringsOf(xml) {
  const strings = [];
  let phonetic = false;
  for (const tag of tagsOf(xml)) {
    if (tag.name === "si" && !tag.closes) strings.push("");
    if (tag.name === "rPh") phonetic = !tag.closes && !tag.alone;
    if (tag.name === "t" && !tag.closes && !phonetic) strings[strings.length - 1] += tag.text;
  }
  return strings;
}

function cellsOf(xml, strings, styles, sign) {
  const rows = [];
  let [row, column, kind, style, value] = [-1, -1, null, "number", ""];
  const put = () => {
    if (value === "") return;
    while (rows.length <= row) rows.push([]);
    if (column >= MOST_SHEET_COLUMNS) throw new Refusal("file_broken");
    let text = value;
    if (kind === "s") text = strings[Number(value)] ?? "";
    else if (kind === null || kind === "n") text = numberText(value, style, sign);
    rows[row][column] = text;
  };
  for (const tag of tagsOf(xml)) {
    if (tag.name === "row" && !tag.closes) {
      row = Number(tag.attribute("r") ?? row + 2) - 1;
      column = -1;
      if (!(row >= 0 && row < MOST_FILE_BYTES)) throw new Refusal("file_broken");
    } else if (tag.name === "c" && !tag.closes) {
      const letters = /^[A-Z]{1,3}/.exec(tag.attribute("r") ?? "")?.[0];
      column = letters
        ? [...letters].reduce((sum, letter) => 26 * sum + letter.charCodeAt(0) - 64, 0) - 1
        : column + 1;
      [kind, style, value] = [tag.attribute("t"), styles[Number(tag.attribute("s"))], ""];
      if (tag.alone) put();
    } else if (tag.name === "c") {
      put();
    } else if ((tag.name === "v" || tag.name === "t") && !tag.closes) {
      value += tag.text;
    }
  }
  // Where in the sheet the table begins means nothing.
  const filled = rows.slice(rows.findIndex((cells) => cells.length > 0));
  if (filled.length === 0) throw new Refusal("file_broken");
  const left = filled.reduce((least, cells) => {
    const at = cells.findIndex((text) => text !== undefined);
    return at < 0 ? least : Math.min(least, at);
  }, MOST_SHEET_COLUMNS);
  return filled.map((cells) => Array.from(cells, (text) => text ?? "").slice(left));
}
