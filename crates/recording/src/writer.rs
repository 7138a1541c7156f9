//! The sink that rooms write to: a stream for each thread, chunks of which go to one file.
//!
//! A thread appends to a buffer of its own and writes it when it is full, when a run or a kernel is done, and when the
//! thread or the recording ends. A text has a number, under which it is written once; each thread knows the names of the
//! program itself without asking others. A child that was forked writes nothing.

use crate::format::{CHUNK, Row, check, head, put, read_head};
use crate::reader::records;
use crate::trace::{Form, Tracer};
use frit_abi::fork::generation;
use frit_abi::record::{self, COMPILES, Field, KINDS, Kind, RUNS, Sink};
use frit_abi::sync::Mutex;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, PoisonError, Weak};

/// Bytes of a chunk, about.
const FULL: usize = 64 << 10;
/// Names of the program that a thread remembers at most.
const MOST_NAMES: usize = 4096;

/// What is written to now.
struct Open {
    file: File,
    /// Forks between the process that began it and the one that may write.
    generation: u64,
    strings: FxHashMap<Box<str>, u32>,
    /// Where the file is a trace: what writes it.
    trace: Option<Trace>,
    streams: Vec<Weak<Mutex<Stream>>>,
    threads: u32,
    /// What went wrong first.
    failure: Option<String>,
}

/// A trace that is written as records come.
struct Trace {
    tracer: Tracer,
    rows: Vec<Row>,
    /// Texts by number.
    texts: Vec<Box<str>>,
}

impl Trace {
    fn new(form: Form) -> Result<Trace, String> {
        let rows = read_head(&head())?.0;
        Ok(Trace { tracer: Tracer::new(form), rows, texts: vec!["".into()] })
    }
    /// What a chunk is in the trace.
    fn of(&mut self, thread: u32, bytes: &[u8]) -> Vec<u8> {
        let (mut out, texts, tracer) = (vec![], &self.texts, &mut self.tracer);
        let text = |n: u64| texts.get(n as usize).map_or("", |t| &**t);
        // what we wrote a moment ago is what the table says
        _ = records(&self.rows, thread.into(), bytes, &mut |r| tracer.add(r, &text, &mut out));
        out
    }
}

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

/// What a thread has written and the file has not.
#[derive(Default)]
struct Stream {
    session: u32,
    thread: u32,
    bytes: Vec<u8>,
    /// Numbers of the program's own texts, by where they lie and how long they are.
    names: FxHashMap<(usize, usize), u32>,
}

struct Own(Arc<Mutex<Stream>>);

impl Drop for Own {
    fn drop(&mut self) {
        flush(&mut lock(&self.0));
    }
}

thread_local! {
    static STREAM: OnceCell<Own> = const { OnceCell::new() };
}

fn lock<T>(m: &Mutex<T>) -> frit_abi::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sink of all recordings.
struct Writer;

impl Sink for Writer {
    fn write(&self, kind: Kind, fields: &[Field]) {
        // at a thread's end there may be no stream any more
        let _ = STREAM.try_with(|own| {
            let stream = &own.get_or_init(|| Own(Arc::default())).0;
            let mut s = lock(stream);
            if s.session != record::session() && !begin(&mut s, stream) {
                return;
            }
            s.append(kind, fields);
            if s.bytes.len() >= FULL || matches!(kind, Kind::Compiled | Kind::Scheduled | Kind::Realized) {
                flush(&mut s);
            }
        });
    }
}

/// Let a thread's stream be part of the recording there is.
fn begin(s: &mut Stream, own: &Arc<Mutex<Stream>>) -> bool {
    *s = Stream { session: record::session(), ..Stream::default() };
    let mut open = lock(&OPEN);
    let Some(open) = &mut *open else { return false };
    open.threads += 1;
    s.thread = open.threads;
    open.streams.push(Arc::downgrade(own));
    let name = std::thread::current().name().unwrap_or("").to_string();
    let number = open.string(&name, &mut s.bytes);
    put(&mut s.bytes, Kind::Thread as u64);
    put(&mut s.bytes, number.into());
    true
}

impl Open {
    /// The number of a text, which is written to `out` where it has none yet.
    fn string(&mut self, text: &str, out: &mut Vec<u8>) -> u32 {
        if let Some(n) = self.strings.get(text) {
            return *n;
        }
        let n = self.strings.len() as u32;
        self.strings.insert(text.into(), n);
        if let Some(trace) = &mut self.trace {
            trace.texts.push(text.into());
        }
        put(out, Kind::String as u64);
        put(out, n.into());
        put(out, text.len() as u64);
        out.extend(text.as_bytes());
        n
    }
}

/// The number of a text; 0, which is the empty one, where nothing is open.
fn string(text: &str, out: &mut Vec<u8>) -> u32 {
    lock(&OPEN).as_mut().map_or(0, |open| open.string(text, out))
}

impl Stream {
    fn append(&mut self, kind: Kind, fields: &[Field]) {
        debug_assert_eq!(fields.len(), KINDS[kind as usize].1.len(), "{kind:?}");
        // a text that is new stands before the record that names it
        let mut numbers = [0u32; 12];
        for (number, field) in numbers.iter_mut().zip(fields) {
            match field {
                Field::Name(name) => {
                    let key = (name.as_ptr() as usize, name.len());
                    *number = match self.names.get(&key) {
                        Some(n) => *n,
                        None => {
                            let n = string(name, &mut self.bytes);
                            if self.names.len() < MOST_NAMES {
                                self.names.insert(key, n);
                            }
                            n
                        }
                    };
                }
                Field::Text("") => {}
                Field::Text(text) => *number = string(text, &mut self.bytes),
                _ => {}
            }
        }
        let out = &mut self.bytes;
        put(out, kind as u64);
        for (number, field) in numbers.into_iter().zip(fields) {
            match field {
                Field::Int(n) => put(out, *n),
                Field::Name(_) | Field::Text(_) => put(out, number.into()),
                Field::Long(text) => {
                    put(out, text.len() as u64);
                    out.extend(text.as_bytes());
                }
                Field::List(all) => {
                    put(out, all.len() as u64);
                    all.iter().for_each(|n| put(out, *n));
                }
            }
        }
    }
}

/// Records of a thread as a chunk.
fn chunk(thread: u32, bytes: &[u8]) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(bytes.len() + 16);
    chunk.push(CHUNK);
    put(&mut chunk, thread.into());
    chunk.extend((bytes.len() as u32).to_le_bytes());
    chunk.extend(check(bytes).to_le_bytes());
    chunk.extend(bytes);
    chunk
}

/// Write what a thread has as a chunk.
fn flush(s: &mut Stream) {
    if s.bytes.is_empty() {
        return;
    }
    let bytes = std::mem::take(&mut s.bytes);
    if s.session != record::session() {
        return;
    }
    if let Some(open) = &mut *lock(&OPEN)
        && open.generation == generation()
    {
        let chunk = match &mut open.trace {
            Some(trace) => trace.of(s.thread, &bytes),
            None => chunk(s.thread, &bytes),
        };
        if let Err(e) = open.file.write_all(&chunk) {
            record::set_level(0);
            open.failure.get_or_insert(e.to_string());
        }
    }
    s.bytes = bytes;
    s.bytes.clear();
}

/// A recording under way. It ends when this is dropped.
pub struct Recording {
    ended: bool,
}

impl Recording {
    /// Begin to write to a file, which is made anew. There is one recording at a time.
    pub fn begin(path: &Path) -> Result<Recording, String> {
        Recording::begin_at(path, COMPILES | RUNS, None)
    }
    /// Begin a profile: launches, copies, memory and spans as a trace that Perfetto opens (`.json`, `.pftrace`), or as a
    /// recording of those alone (`.viz`).
    pub fn begin_profile(path: &Path) -> Result<Recording, String> {
        let form = Form::of(path);
        if form.is_none() && path.extension().is_none_or(|e| e != "viz") {
            return Err(format!("{}: a profile is a .json, a .pftrace or a .viz file", path.display()));
        }
        Recording::begin_at(path, RUNS, form)
    }
    fn begin_at(path: &Path, level: u8, form: Option<Form>) -> Result<Recording, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut open = lock(&OPEN);
        if open.is_some() {
            return Err("a recording is under way: there is one at a time".into());
        }
        let mut file = File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        // a child that inherits FRIT_VIZ must not overwrite what its parent writes
        file.try_lock().map_err(|_| format!("{}: another process records to it", path.display()))?;
        file.set_len(0).map_err(failed)?;
        let mut trace = form.map(Trace::new).transpose()?;
        let mut first = vec![];
        match &mut trace {
            Some(trace) => trace.tracer.head(&mut first),
            None => first = head(),
        }
        file.write_all(&first).map_err(failed)?;
        let strings = FxHashMap::from_iter([("".into(), 0)]);
        let (streams, threads, failure) = (vec![], 0, None);
        *open = Some(Open { file, generation: generation(), strings, trace, streams, threads, failure });
        drop(open);
        record::new_session();
        record::install(&Writer);
        record::set_level(level);
        Ok(Recording { ended: false })
    }
    /// End it: what every thread has written so far is in the file.
    pub fn end(mut self) -> Result<(), String> {
        self.ended = true;
        end()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.ended {
            _ = end();
        }
    }
}

fn end() -> Result<(), String> {
    record::set_level(0);
    let streams = lock(&OPEN).as_ref().map_or(vec![], |open| open.streams.clone());
    for stream in streams.iter().filter_map(Weak::upgrade) {
        flush(&mut lock(&stream));
    }
    record::new_session();
    let ended = lock(&OPEN).take().map(|mut open| {
        let mut tail = vec![];
        open.trace.iter().for_each(|t| t.tracer.tail(&mut tail));
        open.file.write_all(&tail).err().map(|e| e.to_string()).or(open.failure)
    });
    match ended.flatten() {
        Some(e) => Err(format!("the recording is not whole: {e}")),
        None => Ok(()),
    }
}

/// Begin the recording or the profile that the environment asks for, once; it ends with the process. What goes wrong is
/// said, and stops nothing.
pub fn from_environment() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let asked = |name| std::env::var_os(name).filter(|p| !p.is_empty());
    ONCE.call_once(|| {
        let (name, begun) = match (asked("FRIT_VIZ"), asked("FRIT_PROFILE")) {
            (Some(path), profile) => {
                if profile.is_some() {
                    eprintln!(
                        "FRIT_PROFILE: FRIT_VIZ records all of it; frit viz trace makes a trace of that"
                    );
                }
                ("FRIT_VIZ", Recording::begin(Path::new(&path)))
            }
            (None, Some(path)) => ("FRIT_PROFILE", Recording::begin_profile(Path::new(&path))),
            (None, None) => {
                if record::is_unasked() {
                    record::set_level(0);
                }
                return;
            }
        };
        match begun {
            // threads write what they have when they end
            Ok(recording) => std::mem::forget(recording),
            Err(e) => {
                record::set_level(0);
                eprintln!("{name}: {e}; nothing is recorded");
            }
        }
    });
}

/// A recording as a trace.
pub fn as_trace(bytes: &[u8], form: Form) -> Result<Vec<u8>, String> {
    let texts = crate::reader::strings(bytes)?;
    let text = |n: u64| texts.get(n as usize).map_or("", String::as_str);
    let (mut tracer, mut out) = (Tracer::new(form), vec![]);
    tracer.head(&mut out);
    crate::reader::read(bytes, |r| tracer.add(r, &text, &mut out))?;
    tracer.tail(&mut out);
    Ok(out)
}

/// A recording with what a device was measured to do put at its end.
pub fn with_peaks(
    mut bytes: Vec<u8>,
    device: &str,
    about: &str,
    flops: u64,
    moved: u64,
) -> Result<Vec<u8>, String> {
    let first = crate::reader::strings(&bytes)?.len() as u64;
    let extent = crate::reader::read(&bytes, |_| ())?;
    bytes.truncate(bytes.len() - extent.lost);
    let mut body = vec![];
    for (i, text) in [device, about].into_iter().enumerate() {
        put(&mut body, Kind::String as u64);
        put(&mut body, first + i as u64);
        put(&mut body, text.len() as u64);
        body.extend(text.as_bytes());
    }
    put(&mut body, Kind::Device as u64);
    [first, first + 1, flops, moved].into_iter().for_each(|n| put(&mut body, n));
    bytes.extend(chunk(0, &body));
    Ok(bytes)
}
