// Calls the page's modules without a page: reads one JSON document of calls, writes one
// of answers. argv: the folder that holds static/ and vendor/.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.argv[2]}/`);
const load = (name) => import(new URL(name, folder));
const [reading, sealing, words, hpke] = await Promise.all(
  ["static/reading.js", "static/sealing.js", "static/words.js", "vendor/hpke.js"].map(load),
);
const base64 = (bytes) => Buffer.from(bytes).toString("base64");
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));

// Nothing secret may come from here, or depend on the clock.
Math.random = () => { throw new Error("Math.random was asked"); };
Date.now = () => { throw new Error("the clock was asked"); };

const calls = {
  cell: async (text, survey, sign) => {
    const units = reading.readCell(text, survey, sign);
    return units === null ? null : String(units);
  },
  shown: async (whole, places, language) =>
    words.shown({ whole: BigInt(whole), places }, language),
  text: async (text, survey) => reading.readText(text, survey),
  file: async (content, survey, sign) =>
    reading.readFile(new Blob([bytes(content)]), survey, sign),
  huge: async (size, survey) => {
    let read = false;
    const file = { size, arrayBuffer: async () => { read = true; return new ArrayBuffer(0); } };
    try {
      return await reading.readFile(file, survey);
    } catch (error) {
      return [error.word, read];
    }
  },
  code: async (text) => sealing.readCode(text),
  sentences: async (language) => words.sentences(language),
  preferred: async (asked) => words.preferred(asked),
  // A visit as the page does it, from the texts in its cells.
  visit: async (survey, code, texts, number) => {
    const key = await sealing.guestKey(await sealing.readCode(code));
    const guest = await sealing.guestOf(key, survey.guests);
    const cells = texts.map((text) => reading.readCell(text, survey));
    const draw = crypto.getRandomValues.bind(crypto);
    let drawn = 0;
    crypto.getRandomValues = (into) => { drawn += into.byteLength; return draw(into); };
    const begun = performance.now();
    try {
      const made = await sealing.submissionOf(survey, guest, key, number, cells);
      return { ...made, drawn, milliseconds: performance.now() - begun };
    } finally {
      crypto.getRandomValues = draw;
    }
  },
  size: async (cells, delegates) => sealing.submissionBytes(cells, delegates),
  // What has one value only, from a submission that Python made.
  vectors: async (kept, cells) => {
    const letters = await sealing.readCode(kept.code);
    const key = await sealing.guestKey(letters);
    const units = cells.map((each) => (each === null ? null : BigInt(each)));
    const shares = kept.delegates.map(({ share }) => new BigUint64Array(bytes(share).buffer));
    const filled = sealing.filledBytes(units);
    const masked = sealing.bytesOfWords(sealing.maskedWords(sealing.wordsOf(units), shares));
    const seals = kept.delegates.map(({ sealed }) => bytes(sealed));
    const about = { survey: kept.survey, guest: kept.guest, number: kept.number, filled, masked, seals };
    const statement = await sealing.statementOf(about, kept.delegates);
    const signature = await crypto.subtle.sign("Ed25519", key, statement);
    const suite = new hpke.CipherSuite({
      kem: new hpke.DhkemX25519HkdfSha256(),
      kdf: new hpke.HkdfSha256(),
      aead: new hpke.Aes256Gcm(),
    });
    const opened = [];
    for (const [at, delegate] of kept.delegates.entries()) {
      const recipientKey = await suite.kem.deserializePrivateKey(sealing.bytesOfHex(delegate.private));
      const enc = seals[at].slice(0, 32);
      const info = new TextEncoder().encode(delegate.info);
      opened.push(base64(new Uint8Array(await suite.open({ recipientKey, enc, info }, seals[at].slice(32)))));
    }
    const known = [{ name: "another", key: kept.delegates[0].public }, { name: kept.guest, key: kept.public }];
    return {
      secret: letters,
      guest: (await sealing.guestOf(key, known)).name,
      words: Array.from(sealing.wordsOf(units), String),
      filled: sealing.hex(filled),
      masked: base64(masked),
      statement: new TextDecoder().decode(statement),
      signature: base64(new Uint8Array(signature)),
      opened,
    };
  },
};

const answers = [];
for (const [name, ...given] of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    answers.push({ answer: await calls[name](...given) });
  } catch (error) {
    answers.push({ refusal: error.word ?? null, message: String(error.message) });
  }
}
process.stdout.write(JSON.stringify(answers));
