//! A recorded program in a file: kernels as graphs, kept memory as bytes.
//!
//! A kernel is saved as its graph, not as machine code: it is compiled when the file is loaded, for the machine it is
//! loaded on, which takes less than a millisecond. So a file runs wherever a device of its kind does, and no code is
//! taken from it. What it computes is up to the file; that it stays in its own memory is proven before anything runs
//! (`program_check`), and what cannot be proven is not loaded.
//!
//! ```text
//! "FRITJIT\n", version, device kind, graphs, launches, kept memory, results, signature, notes, checksum
//! ```
//! Numbers are little-endian u64; a text or a list has its length before it.

use super::check;
use super::recording::{Launch, Output, Parts, Place, Recording, Saved, Signature, Var};
use crate::kernel::compiled::Compiled;
use crate::memory::bindings::Bindings;
use crate::plan::load::load_kernels;
use crate::{Error, devices};
use frit_abi::DType;
use frit_uop::{UOp, text};
use rustc_hash::FxHashMap;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"FRITJIT\n";
const VERSION: u64 = 2;

fn failed(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Graph(format!("{}: {why}", path.display()))
}

/// Write a program to a file whole, or not at all.
pub fn save(path: &Path, program: &Recording, signature: &Signature, notes: &[u64]) -> Result<(), Error> {
    let beside = path.with_extension(format!("part{}", std::process::id()));
    // what a process of the same number left behind; then a file of our own, and none that a link leads to
    let _ = std::fs::remove_file(&beside);
    let file = std::fs::File::options().write(true).create_new(true).open(&beside);
    let file = file.map_err(|e| failed(path, e))?;
    let done = write(BufWriter::new(file), program, signature, notes);
    let done = done.and_then(|_| std::fs::rename(&beside, path));
    done.map_err(|e| {
        let _ = std::fs::remove_file(&beside);
        failed(path, e)
    })
}

/// Read a program from a file, check it, and compile it for this machine.
pub fn load(path: &Path) -> Result<Saved, Error> {
    let file = std::fs::File::open(path).map_err(|e| failed(path, e))?;
    let left = file.metadata().map_err(|e| failed(path, e))?.len();
    read(BufReader::new(file), left).map_err(|why| failed(path, why))
}

/// A program as the bytes of a file.
pub fn to_bytes(program: &Recording, signature: &Signature, notes: &[u64]) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![];
    write(&mut bytes, program, signature, notes).map_err(|e| Error::Graph(e.to_string()))?;
    Ok(bytes)
}

/// The program of such bytes, as [`load`] reads it.
pub fn of_bytes(bytes: &[u8]) -> Result<Saved, Error> {
    read(bytes, bytes.len() as u64).map_err(|why| Error::Graph(format!("a recorded program: {why}")))
}

fn write(out: impl Write, program: &Recording, signature: &Signature, notes: &[u64]) -> std::io::Result<()> {
    let mut w = Writer { out, sum: Sum::START };
    w.program(&program.parts, signature, notes)?;
    w.out.flush()
}

fn read(input: impl Read, left: u64) -> Read1<Saved> {
    Reader { input, left, sum: Sum::START }.program()
}

/// FNV-1a over 64 bits: finds damage, not malice.
struct Sum(u64);

impl Sum {
    const START: Sum = Sum(0xcbf2_9ce4_8422_2325);
    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |s, b| (s ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    }
}

struct Writer<W: Write> {
    out: W,
    sum: Sum,
}

impl<W: Write> Writer<W> {
    fn bytes(&mut self, b: &[u8]) -> std::io::Result<()> {
        self.sum.add(b);
        self.out.write_all(b)
    }
    fn number(&mut self, n: u64) -> std::io::Result<()> {
        self.bytes(&n.to_le_bytes())
    }
    fn text(&mut self, s: &str) -> std::io::Result<()> {
        self.number(s.len() as u64)?;
        self.bytes(s.as_bytes())
    }
    fn list<T>(
        &mut self,
        items: &[T],
        each: impl Fn(&mut Self, &T) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        self.number(items.len() as u64)?;
        items.iter().try_for_each(|i| each(self, i))
    }
    fn numbers(&mut self, items: &[usize]) -> std::io::Result<()> {
        self.list(items, |w, n| w.number(*n as u64))
    }
    fn place(&mut self, p: &Place) -> std::io::Result<()> {
        let [kind, a, b] = match *p {
            Place::Input(i) => [0, i, 0],
            Place::Output(i) => [1, i, 0],
            Place::Held(i) => [2, i, 0],
            Place::Arena { offset, bytes } => [3, offset, bytes],
        };
        [kind, a, b].iter().try_for_each(|n| self.number(*n as u64))
    }

    fn program(&mut self, p: &Parts, signature: &Signature, notes: &[u64]) -> std::io::Result<()> {
        self.bytes(MAGIC)?;
        self.number(VERSION)?;
        self.text(&p.device)?;
        let mut asts: Vec<UOp> = vec![];
        let mut numbers: FxHashMap<UOp, usize> = FxHashMap::default();
        for l in &p.launches {
            numbers.entry(l.kernel.ast.clone()).or_insert_with(|| {
                asts.push(l.kernel.ast.clone());
                asts.len() - 1
            });
        }
        self.list(&asts, |w, ast| w.text(&text::print(ast)))?;
        self.list(&p.launches, |w, l| {
            w.number(numbers[&l.kernel.ast] as u64)?;
            w.list(&l.args, Self::place)?;
            w.list(&l.vars, |w, v| match v {
                Var::Frozen(_) => w.text(""),
                Var::Bound(name) => w.text(name),
            })?;
            let mut frozen: Vec<_> = l.frozen.iter().collect();
            frozen.sort();
            w.list(&frozen, |w, (name, value)| {
                w.text(name)?;
                w.number(**value as u64)
            })
        })?;
        self.list(&p.held, |w, m| {
            let mut bytes = vec![0; m.len_bytes()];
            m.copy_out(0, &mut bytes).map_err(std::io::Error::other)?;
            w.number(bytes.len() as u64)?;
            w.bytes(&bytes)
        })?;
        self.number(p.arena as u64)?;
        self.list(&p.outputs, |w, o| {
            w.text(&text::print(&o.view))?;
            w.text(&o.dtype.to_string())?;
            w.number(o.bytes as u64)?;
            w.place(&o.from)
        })?;
        self.number(p.inputs as u64)?;
        self.numbers(&p.written_inputs)?;
        self.numbers(&p.state)?;
        self.list(&p.moved, |w, (held, output)| {
            w.number(*held as u64)?;
            w.number(*output as u64)
        })?;
        self.numbers(&p.draws)?;
        self.list(&signature.inputs, |w, i| w.text(&text::print(i)))?;
        self.numbers(&signature.same)?;
        self.list(notes, |w, n| w.number(*n))?;
        let sum = self.sum.0;
        self.out.write_all(&sum.to_le_bytes())
    }
}

type Read1<T> = Result<T, String>;

/// Reads what [`Writer`] wrote; a length is believed only if the file has that much left.
struct Reader<R: Read> {
    input: R,
    left: u64,
    sum: Sum,
}

impl<R: Read> Reader<R> {
    fn bytes(&mut self, n: u64) -> Read1<Vec<u8>> {
        if n > self.left {
            return Err(format!("it ends early: {n} bytes are missing"));
        }
        // a length is as large as a file can claim to be, which is more than there is memory for
        let (mut bytes, len) = (vec![], usize::try_from(n).map_err(|e| e.to_string())?);
        bytes.try_reserve_exact(len).map_err(|e| format!("{n} bytes: {e}"))?;
        let got = (&mut self.input).take(n).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        if got != len {
            return Err(format!("it ends early: {} bytes are missing", len - got));
        }
        self.left -= n;
        self.sum.add(&bytes);
        Ok(bytes)
    }
    fn number(&mut self) -> Read1<u64> {
        let bytes = self.bytes(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| "not a number")?))
    }
    fn size(&mut self) -> Read1<usize> {
        usize::try_from(self.number()?).map_err(|e| e.to_string())
    }
    fn text(&mut self) -> Read1<String> {
        let n = self.number()?;
        String::from_utf8(self.bytes(n)?).map_err(|e| e.to_string())
    }
    fn list<T>(&mut self, each: impl Fn(&mut Self) -> Read1<T>) -> Read1<Vec<T>> {
        let n = self.number()?;
        if n > self.left {
            return Err(format!("it says there are {n} items, and ends before"));
        }
        (0..n).map(|_| each(self)).collect()
    }
    fn below(&mut self, end: usize, what: &str) -> Read1<usize> {
        let n = self.size()?;
        if n < end { Ok(n) } else { Err(format!("{what} {n} of {end}")) }
    }
    /// Whether there is such a place is known, and checked, when everything is read.
    fn place(&mut self) -> Read1<Place> {
        let (kind, a, b) = (self.number()?, self.size()?, self.size()?);
        match kind {
            0 => Ok(Place::Input(a)),
            1 => Ok(Place::Output(a)),
            2 => Ok(Place::Held(a)),
            3 => Ok(Place::Arena { offset: a, bytes: b }),
            _ => Err(format!("there is no place {kind} {a} {b}")),
        }
    }
    fn graph(&mut self) -> Read1<UOp> {
        text::parse(&self.text()?).map_err(|e| e.to_string())
    }

    fn program(&mut self) -> Read1<Saved> {
        if self.bytes(8)? != MAGIC {
            return Err("not a recorded program".into());
        }
        match self.number()? {
            VERSION => {}
            v => return Err(format!("a program of version {v}; this reads version {VERSION}")),
        }
        let device = devices::canonical(&self.text()?).map_err(|e| e.to_string())?;
        let asts = self.list(Self::graph)?;
        check::kernels(&asts)?;
        let launches = self.list(|r| {
            let ast = r.below(asts.len(), "graph")?;
            let args = r.list(Self::place)?;
            let bound = r.list(Self::text)?;
            let frozen = r.list(|r| Ok((Arc::<str>::from(r.text()?), r.number()? as i64)))?;
            Ok((ast, args, bound, frozen.into_iter().collect::<Bindings>()))
        })?;
        let dev = frit_runtime::device(&device).map_err(|e| e.to_string())?;
        let held = self.list(|r| {
            let n = r.number()?;
            let bytes = r.bytes(n)?;
            let memory = dev.alloc(bytes.len()).map_err(|e| e.to_string())?;
            memory.copy_in(0, &bytes).map_err(|e| e.to_string())?;
            Ok(memory)
        })?;
        let arena = self.size()?;
        let outputs = self.list(|r| {
            let (view, name) = (r.graph()?, r.text()?);
            let dtype = DType::from_name(&name).ok_or_else(|| format!("there is no type {name}"))?;
            Ok(Output { view, dtype, bytes: r.size()?, from: r.place()? })
        })?;
        let inputs = self.size()?;
        let written_inputs = self.list(|r| r.below(inputs, "input"))?;
        let state = self.list(|r| r.below(held.len(), "kept memory"))?;
        let moved =
            self.list(|r| Ok((r.below(held.len(), "kept memory")?, r.below(outputs.len(), "result")?)))?;
        let draws = self.list(|r| r.below(held.len(), "kept memory"))?;
        let views = self.list(Self::graph)?;
        let same = self.list(|r| r.below(views.len(), "input"))?;
        let notes = self.list(Self::number)?;
        let sum = self.sum.0;
        if self.number()? != sum || self.left != 0 {
            return Err("it is damaged: its checksum does not fit".into());
        }
        // sizes that the function is called with stand behind its inputs
        if views.len() < inputs || same.len() != views.len() {
            return Err(format!("it describes {} of {inputs} inputs", views.len()));
        }
        if views[inputs..].iter().any(|s| s.dtype != DType::Index) {
            return Err("a size is not one".into());
        }
        let all: Vec<UOp> = launches.iter().map(|l| asts[l.0].clone()).collect();
        let kernels = load_kernels(&all, &device).map_err(|e| e.to_string())?;
        let launches = launches.into_iter().zip(kernels).map(|((_, args, bound, frozen), kernel)| {
            let vars = variables(&kernel, &bound, &frozen)?;
            Ok(Launch { kernel, origin: "".into(), args, vars, frozen })
        });
        let launches = launches.collect::<Read1<Vec<Launch>>>()?;
        let mut bindings = Bindings::default();
        launches.iter().for_each(|l| bindings.extend(l.frozen.iter().map(|(k, v)| (k.clone(), *v))));
        let versions = vec![None; held.len()];
        let device_of_inputs = (inputs > 0).then(|| device.clone());
        let parts =
            Parts { device, launches, held, arena, outputs, inputs, written_inputs, state, moved, draws };
        let signature = Signature { inputs: views, same, device: device_of_inputs };
        check::program(&parts, &signature)?;
        let program = Recording::new(parts, vec![], versions, &bindings).map_err(|e| e.to_string())?;
        Ok(Saved { program, signature, notes })
    }
}

fn variables(kernel: &Compiled, bound: &[String], frozen: &Bindings) -> Read1<Vec<Var>> {
    if bound.len() != kernel.vars.len() {
        return Err(format!(
            "kernel {} has {} variables, not {}",
            kernel.name,
            kernel.vars.len(),
            bound.len()
        ));
    }
    let var = |(name, bound): (&Arc<str>, &String)| match frozen.get(name) {
        Some(_) if **bound == **name => Ok(Var::Bound(name.clone())),
        Some(v) => Ok(Var::Frozen(*v)),
        None => Err(format!("variable {name} has no value")),
    };
    kernel.vars.iter().zip(bound).map(var).collect()
}
