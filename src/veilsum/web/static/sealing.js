// From a guest's whole numbers to one sealed submission. No page, no clock, no network:
// this file runs in a browser and in Node alike, on WebCrypto alone.
//
// A cell travels as one word of 64 bits: its number of units modulo 2^64, 0 where it is
// empty. One uniform vector is drawn for each delegate and sealed to its key; what is left
// after all of them are subtracted is the masked vector, which by itself is uniform too.
// Which cells are filled travels open, as one bit each. Docs: guides/surveys.md.

import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "../vendor/hpke.js";
import { Refusal } from "./words.js";

const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE_LETTERS = 26;
const MOST_AT_ONCE = 65536; // bytes that getRandomValues gives in one call
// What stands before the 32 bytes of a seed in a PKCS8 Ed25519 key (RFC 8410).
const PKCS8_ED25519 = "302e020100300506032b657004220420";

const utf8 = (text) => new TextEncoder().encode(text);

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function bytesOfHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

export function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(text);
}

async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

// ---------------------------------------------------------------- the invitation code

async function checkLetters(letters) {
  const sum = await sha256(utf8(`veilsum code 1\n${letters}`));
  const first = (sum[0] << 2) | (sum[1] >> 6);
  return LETTERS[first >> 5] + LETTERS[first & 31];
}

// The 26 letters that count, from a code as people type it.
export async function readCode(text) {
  const typed = text
    .toUpperCase()
    .replace(/[\s\u002d\u2010-\u2015\u2212]/g, "")
    .replace(/O/g, "0")
    .replace(/[IL]/g, "1");
  if (typed === "") throw new Refusal("code_empty");
  const strange = [...typed].find((letter) => !LETTERS.includes(letter));
  if (strange !== undefined) throw new Refusal("code_letter", { letter: strange });
  if (typed.length !== CODE_LETTERS + 2) {
    throw new Refusal("code_length", { found: typed.length });
  }
  const letters = typed.slice(0, CODE_LETTERS);
  if (typed.slice(CODE_LETTERS) !== (await checkLetters(letters))) {
    throw new Refusal("code_typo");
  }
  return letters;
}

// The Ed25519 key that belongs to the letters; the browser does not give it out again.
export async function guestKey(letters) {
  const seed = await sha256(utf8(`veilsum invitation 1\n${letters}`));
  const encoded = new Uint8Array([...bytesOfHex(PKCS8_ED25519), ...seed]);
  return crypto.subtle.importKey("pkcs8", encoded, { name: "Ed25519" }, false, ["sign"]);
}

// Which of the invited has this key: the one whose public key verifies what it signs.
// (Not every browser tells the public half of an imported key.)
export async function guestOf(key, guests) {
  const probe = utf8("veilsum which guest 1\n");
  const signature = await crypto.subtle.sign("Ed25519", key, probe);
  for (const guest of guests) {
    const known = await crypto.subtle.importKey(
      "raw", bytesOfHex(guest.key), { name: "Ed25519" }, false, ["verify"],
    );
    if (await crypto.subtle.verify("Ed25519", known, signature, probe)) return guest;
  }
  throw new Refusal("code_unknown");
}

// What shows the host that a guest asks for what it has from it: nobody else is told.
export async function proofOf(key, survey) {
  const asked = utf8(`veilsum newest 1\n${survey}\n`);
  return hex(new Uint8Array(await crypto.subtle.sign("Ed25519", key, asked)));
}

// ------------------------------------------------------------------ shares and masking

// Uniform words of 64 bits, from the system's generator and from nothing else.
export function uniformWords(count) {
  const bytes = new Uint8Array(8 * count);
  for (let at = 0; at < bytes.length; at += MOST_AT_ONCE) {
    crypto.getRandomValues(bytes.subarray(at, at + MOST_AT_ONCE));
  }
  return new BigUint64Array(bytes.buffer);
}

// The words of a table in row-major order: units in two's complement, modulo 2^64.
export function wordsOf(cells) {
  const words = new BigUint64Array(cells.length);
  cells.forEach((units, at) => { words[at] = units ?? 0n; });
  return words;
}

// Which cells have a number, a bit each, the most significant of a byte first.
export function filledBytes(cells) {
  const bytes = new Uint8Array(Math.ceil(cells.length / 8));
  cells.forEach((units, at) => {
    if (units !== null) bytes[at >> 3] |= 128 >> (at & 7);
  });
  return bytes;
}

export function maskedWords(words, shares) {
  const masked = BigUint64Array.from(words);
  for (const share of shares) {
    for (let at = 0; at < masked.length; at += 1) masked[at] -= share[at];
  }
  return masked;
}

// Little-endian whatever the machine is.
export function bytesOfWords(words) {
  const view = new DataView(new ArrayBuffer(8 * words.length));
  words.forEach((word, at) => view.setBigUint64(8 * at, word, true));
  return new Uint8Array(view.buffer);
}

// ------------------------------------------------------------------------- submissions

// A share, sealed by HPKE (RFC 9180) under all that it belongs to: put under another
// name, it does not open.
async function sealed(plain, { survey, delegate, guest, number, digests }) {
  const suite = new CipherSuite({
    kem: new DhkemX25519HkdfSha256(),
    kdf: new HkdfSha256(),
    aead: new Aes256Gcm(),
  });
  const recipientPublicKey = await suite.kem.deserializePublicKey(bytesOfHex(delegate.key));
  const bound = ["veilsum guest 2", survey, delegate.name, guest, String(number), ...digests];
  const { enc, ct } = await suite.seal({ recipientPublicKey, info: utf8(bound.join("\n")) }, plain);
  const seal = new Uint8Array(enc.byteLength + ct.byteLength);
  seal.set(new Uint8Array(enc));
  seal.set(new Uint8Array(ct), enc.byteLength);
  return seal;
}

// What is signed: all that a delegate or an auditor needs to tell two submissions apart.
export async function statementOf({ survey, guest, number, filled, masked, seals }, delegates) {
  const lines = ["veilsum submission 2", survey, guest, String(number)];
  lines.push(hex(await sha256(filled)), hex(await sha256(masked)));
  for (const [at, delegate] of delegates.entries()) {
    lines.push(`${delegate.name} ${hex(await sha256(seals[at]))}`);
  }
  return utf8(`${lines.join("\n")}\n`);
}

// One whole submission: every share drawn anew, each sealed to its delegate, signed.
// `cells` are whole numbers of units (BigInt) in row-major order, null where empty.
export async function submissionOf(survey, guest, key, number, cells) {
  const words = wordsOf(cells);
  const filled = filledBytes(cells);
  const shares = survey.delegates.map(() => uniformWords(words.length));
  const masked = bytesOfWords(maskedWords(words, shares));
  const digests = [hex(await sha256(filled)), hex(await sha256(masked))];
  const seals = await Promise.all(
    survey.delegates.map((delegate, at) =>
      sealed(bytesOfWords(shares[at]), {
        survey: survey.digest, delegate, guest: guest.name, number, digests,
      }),
    ),
  );
  const about = { survey: survey.digest, guest: guest.name, number, filled, masked, seals };
  const statement = await statementOf(about, survey.delegates);
  const signature = await crypto.subtle.sign("Ed25519", key, statement);
  const text = JSON.stringify({
    survey: survey.digest,
    guest: guest.name,
    number,
    filled: hex(filled),
    masked: base64(masked),
    sealed: seals.map(base64),
    signature: base64(new Uint8Array(signature)),
  });
  return { text, digest: hex(await sha256(statement)) };
}

// How many bytes a submission of so many cells has, before the names in it.
export function submissionBytes(cells, delegates) {
  const vector = 8 * cells;
  const encoded = (bytes) => 4 * Math.ceil(bytes / 3);
  // A seal has 32 bytes of its own key before, 16 bytes that guard it behind.
  const seals = delegates * (encoded(vector + 48) + 3);
  return encoded(vector) + seals + 2 * Math.ceil(cells / 8) + 262;
}
