// Which lines of a listing, of the source written from it, and of its machine code belong together: the compiler said so.

const STEP = /^\s*(%|for |\}|prefetch |do )/;
const DEFINES = /^\s*(?:let )?(%\d+) =/;

// `steps` has for each line of the source the step of the listing that it is for, counted from 1; `offsets` where the machine
// code of each line begins.
export class Links {
  constructor({ listing, source, code }, steps, offsets) {
    this.counts = [listing.length, source.length, code.length];
    // the listing: steps, names, and who reads them
    this.stepOf = new Uint32Array(listing.length);
    this.lineOf = [-1];
    this.names = [];
    this.readers = new Map();
    this.reads = [];
    const lineOf = new Map();
    listing.forEach(({ text }, i) => {
      if (STEP.test(text)) this.stepOf[i] = this.lineOf.push(i) - 1;
      this.names[i] = DEFINES.exec(text)?.[1];
      const read = [...new Set(text.match(/%\d+/g) || [])].filter((name) => name !== this.names[i]);
      // a store reads its value last
      this.reads[i] = this.stepOf[i] ? read.map((name) => lineOf.get(name)).filter((l) => l !== undefined && this.stepOf[l]) : [];
      if (this.names[i]) lineOf.set(this.names[i], i);
      for (const name of read) {
        if (!this.readers.has(name)) this.readers.set(name, []);
        this.readers.get(name).push(i);
      }
    });
    this.steps = steps;
    this.sourceOf = new Map();
    steps.forEach((s, i) => s && (this.sourceOf.has(s) ? this.sourceOf.get(s).push(i) : this.sourceOf.set(s, [i])));
    // machine code: the last line that begins at or before an instruction made it
    this.ownerOf = new Int32Array(code.length).fill(-1);
    this.codeOf = new Map();
    let line = -1;
    code.forEach(({ text }, i) => {
      const at = parseInt(/^\s*([0-9a-f]+):/.exec(text)?.[1] ?? "", 16);
      if (Number.isNaN(at) || !offsets.length) return;
      while (line + 1 < offsets.length && offsets[line + 1] <= at) line++;
      this.ownerOf[i] = line;
      if (line >= 0) this.codeOf.has(line) ? this.codeOf.get(line).push(i) : this.codeOf.set(line, [i]);
    });
  }
  // The steps that a line of the listing is written in: its own, else those that read what it names.
  writtenIn(line, seen = new Set()) {
    if (seen.has(line)) return [];
    seen.add(line);
    const own = this.stepOf[line];
    if (own && this.sourceOf.has(own)) return [own];
    const readers = (this.readers.get(this.names[line]) || []).flatMap((reader) => this.writtenIn(reader, seen));
    // what only puts a value in a variable is written where the value is computed
    return readers.length ? readers : this.reads[line].flatMap((l) => this.writtenIn(l, seen)).slice(-1);
  }
  // For each column its lines that go with one: "on", or "kin" where they only belong to the same step.
  of(column, line) {
    const marks = [new Map(), new Map(), new Map()];
    const put = (c, i, how) => i >= 0 && i < this.counts[c] && marks[c].get(i) !== "on" && marks[c].set(i, how);
    const sources = (steps, how) => steps.flatMap((s) => this.sourceOf.get(s) || []).forEach((i) => {
      put(1, i, how);
      (this.codeOf.get(i) || []).forEach((j) => put(2, j, how));
    });
    put(column, line, "on");
    if (column === 0) sources(this.writtenIn(line), "on");
    else {
      const source = column === 1 ? line : this.ownerOf[line];
      put(1, source, "on");
      (this.codeOf.get(source) || []).forEach((j) => put(2, j, column === 1 || j === line ? "on" : "kin"));
      const step = this.steps[source] || 0;
      put(0, this.lineOf[step] ?? -1, "on");
      if (step) sources([step], "kin");
    }
    return marks;
  }
}
