// Puts names that would be code, markup or control in a page into a recording: node hostile.mjs FILE. It knows the format only by
// what stands at the head of the file and in crates/recording/src/format.rs.
import fs from "node:fs";
import { HOSTILE } from "./names.mjs";

const file = process.argv[2];
const bytes = fs.readFileSync(file);
let at = 8;
const take = () => {
  let [n, shift] = [0, 0];
  for (;;) {
    const b = bytes[at++];
    n += (b & 127) * 2 ** shift;
    if (b < 128) return n;
    shift += 7;
  }
};
const length = take();
const kinds = bytes.subarray(at, at + length).toString().trimEnd().split("\n").map((row) => row.split(" ")[0]);
const number = (n) => {
  const out = [];
  for (; n >= 128; n = Math.floor(n / 128)) out.push((n % 128) | 128);
  return [...out, n];
};
const record = (kind, ...values) => [kinds.indexOf(kind), ...values].flatMap((v) => (typeof v === "number" ? number(v) : [...number(Buffer.byteLength(v)), ...Buffer.from(v)]));
// numbers of texts that no recording of a test comes to
const first = 1 << 24;
const body = Buffer.from(HOSTILE.flatMap((name, i) => [...record("string", first + i, name), ...record("user", 1e8 + 5e6 * i, 4e6, first + i)]));
let h = 0xcbf29ce484222325n;
for (let i = 0; i < body.length; i += 8) {
  const word = Buffer.alloc(8);
  body.copy(word, 0, i, Math.min(body.length, i + 8));
  h = BigInt.asUintN(64, (h ^ word.readBigUInt64LE()) * 0x100000001b3n);
  h ^= h >> 29n;
}
const head = Buffer.alloc(8);
head.writeUInt32LE(body.length, 0);
head.writeUInt32LE(Number((h ^ (h >> 32n)) & 0xffffffffn), 4);
const chunk = fs.readFileSync(file).subarray(8 + number(length).length + length)[0];
fs.appendFileSync(file, Buffer.concat([Buffer.from([chunk, ...number(1)]), head, body]));
