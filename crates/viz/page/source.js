// Reads a pack: its index at once, its parts when someone looks. The same whether a server has it or the page itself.

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}

export class Pack {
  constructor(read, index, base) {
    this.read = read;
    this.index = index;
    this.base = base;
    this.kept = new Map();
  }
  // The bytes of a part, inflated; the last few are kept.
  part(place, asJson) {
    const [offset, length] = place;
    if (!length) return Promise.reject(new Error("nothing was recorded for this"));
    const known = this.kept.get(offset);
    if (known) {
      this.kept.delete(offset);
      this.kept.set(offset, known);
      return known;
    }
    const made = this.read(this.base + offset, length).then(inflate).then((b) => (asJson ? JSON.parse(new TextDecoder().decode(b)) : b));
    this.kept.set(offset, made);
    made.catch(() => this.kept.delete(offset));
    if (this.kept.size > 96) this.kept.delete(this.kept.keys().next().value);
    return made;
  }
  json(place) {
    return this.part(place, true);
  }
}

async function openPack(read) {
  const head = new Uint8Array(await read(0, 12));
  if (new TextDecoder().decode(head.subarray(0, 8)) !== "FRITPACK") throw new Error("this is not a pack of a recording");
  const length = new DataView(head.buffer, head.byteOffset).getUint32(8, true);
  const text = new TextDecoder().decode(await read(12, length));
  return new Pack(read, JSON.parse(text), 12 + length);
}

// A pack that stands in the page as base64, or else one that the server has.
export async function findPack() {
  const here = document.getElementById("pack");
  if (here) {
    const text = atob(here.textContent.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    here.remove();
    return openPack(async (offset, length) => bytes.slice(offset, offset + length).buffer);
  }
  return openPack(async (offset, length) => {
    const answer = await fetch("pack", { headers: { Range: `bytes=${offset}-${offset + length - 1}` } });
    if (answer.status !== 206) throw new Error(`the server answered ${answer.status}: is frit viz still running?`);
    return answer.arrayBuffer();
  });
}
