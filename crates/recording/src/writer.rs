//! The sink that rooms write to: each thread has records of its own, chunks of which go to one file.
//!
//! While compiling is recorded, a thread appends to a buffer and writes it when it is full, when a run or a kernel is done,
//! and when the thread or the recording ends. In a profile it puts records into a `Ring`, which a thread of this room
//! empties: whoever launches kernels waits neither for the file nor for anyone. A text has a number, under which it is
//! written once; each thread remembers those it used. A child that was forked writes nothing.

use crate::format::{CHUNK, Row, check, head, put, read_head};
use crate::reader::records;
use crate::ring::Ring;
use crate::trace::{Form, Tracer};
use frit_abi::fork::generation;
use frit_abi::record::{self, COMPILES, Field, KINDS, Kind, RUNS, Sink};
use frit_abi::sync::Mutex;
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::thread::{Thread, ThreadId};
use std::time::{Duration, Instant};

/// Bytes of a chunk, about.
const FULL: usize = 64 << 10;
/// Texts that a thread remembers at most.
const MOST_TEXTS: usize = 1 << 14;
/// How often rings are emptied.
const ROUND: Duration = Duration::from_millis(5);
/// How long a process that ends waits for the last of that.
const LAST_ROUND: Duration = Duration::from_millis(500);

/// What is written to now. Nothing that launches waits for this one: writing to a file takes long.
struct Open {
    file: File,
    /// Forks between the process that began it and the one that may write.
    generation: u64,
    /// Where the file is a trace: what writes it.
    trace: Option<Trace>,
    /// Texts that rings named and the file has.
    told: usize,
    /// What went wrong first.
    failure: Option<String>,
}

/// A trace that is written as records come.
struct Trace {
    tracer: Tracer,
    rows: Vec<Row>,
    /// Texts by number.
    texts: Vec<Arc<str>>,
}

impl Trace {
    fn new(form: Form) -> Result<Trace, String> {
        let rows = read_head(&head())?.0;
        Ok(Trace { tracer: Tracer::new(form), rows, texts: vec![] })
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

/// Texts by number, and their numbers; the first is the empty one.
#[derive(Default)]
struct Texts {
    all: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
}

static TEXTS: Mutex<Option<Texts>> = Mutex::new(None);

/// The number of a text, and whether it is new.
fn number_of(text: &str) -> (u32, bool) {
    let mut texts = lock(&TEXTS);
    let texts = texts.get_or_insert_default();
    if let Some(n) = texts.numbers.get(text) {
        return (*n, false);
    }
    let (n, text) = (texts.all.len() as u32, Arc::<str>::from(text));
    texts.all.push(text.clone());
    texts.numbers.insert(text, n);
    (n, true)
}

/// A text as a record.
fn put_string(number: u32, text: &str, out: &mut Vec<u8>) {
    put(out, Kind::String as u64);
    put(out, number.into());
    put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Threads that write.
#[derive(Default)]
struct Threads {
    count: u32,
    streams: Vec<Weak<Mutex<Stream>>>,
    rings: Vec<(u32, Arc<Ring>)>,
    /// Who began the recording, and who empties the rings.
    owner: Option<ThreadId>,
    recorder: Option<Thread>,
}

/// `None` where nothing is recorded.
static THREADS: Mutex<Option<Threads>> = Mutex::new(None);
/// Rounds of the recorder.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

/// What a thread has written and the file has not.
#[derive(Default)]
struct Stream {
    session: u32,
    thread: u32,
    bytes: Vec<u8>,
    known: Known,
}

/// Numbers of texts that a thread has used: of the program's own by where they lie and how long they are.
#[derive(Default)]
struct Known {
    names: FxHashMap<(usize, usize), u32>,
    texts: FxHashMap<Box<str>, u32>,
}

impl Known {
    /// The number of a field that is a text; `new` is told one that nobody had named before.
    #[inline]
    fn number(&mut self, field: &Field, new: impl FnOnce(u32, &str)) -> u32 {
        match field {
            Field::Text("") => 0,
            Field::Name(name) => {
                let key = (name.as_ptr() as usize, name.len());
                if let Some(n) = self.names.get(&key) {
                    return *n;
                }
                let n = named(name, new);
                if self.names.len() < MOST_TEXTS {
                    self.names.insert(key, n);
                }
                n
            }
            Field::Text(text) => {
                if let Some(n) = self.texts.get(*text) {
                    return *n;
                }
                let n = named(text, new);
                if self.texts.len() >= MOST_TEXTS {
                    self.texts.clear();
                }
                self.texts.insert((*text).into(), n);
                n
            }
            _ => 0,
        }
    }
}

#[cold]
fn named(text: &str, new: impl FnOnce(u32, &str)) -> u32 {
    let (n, is_new) = number_of(text);
    if is_new {
        new(n, text);
    }
    n
}

/// A thread's end of its ring.
#[derive(Default)]
struct Quick {
    session: u32,
    ring: Option<Arc<Ring>>,
    known: Known,
    /// Records that found no room, since the last one that did.
    lost: u64,
    recorder: Option<Thread>,
}

struct Own {
    stream: Arc<Mutex<Stream>>,
    quick: RefCell<Quick>,
}

impl Drop for Own {
    fn drop(&mut self) {
        flush(&mut lock(&self.stream));
        if let Some(ring) = &self.quick.get_mut().ring {
            ring.close();
        }
        let me = Some(std::thread::current().id());
        let recorder = lock(&THREADS).as_ref().filter(|t| t.owner == me).and_then(|t| t.recorder.clone());
        if let Some(recorder) = recorder {
            // the process may end with this thread: two rounds, since one may be under way
            let (from, last) = (ROUNDS.load(Ordering::Acquire), Instant::now() + LAST_ROUND);
            while ROUNDS.load(Ordering::Acquire) < from + 2 && Instant::now() < last && is_own_process() {
                recorder.unpark();
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}

thread_local! {
    static STREAM: OnceCell<Own> = const { OnceCell::new() };
}

fn lock<T>(m: &Mutex<T>) -> frit_abi::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is the process that began what is recorded.
fn is_own_process() -> bool {
    lock(&OPEN).as_ref().is_some_and(|open| open.generation == generation())
}

/// The sink of all recordings.
struct Writer;

impl Sink for Writer {
    fn write(&self, kind: Kind, fields: &[Field]) {
        // at a thread's end there may be no stream any more
        let _ = STREAM.try_with(|own| {
            let own = own.get_or_init(|| Own { stream: Arc::default(), quick: RefCell::default() });
            if !record::compiles() {
                if let Ok(mut quick) = own.quick.try_borrow_mut() {
                    quick.write(kind, fields);
                }
                return;
            }
            let mut s = lock(&own.stream);
            if s.session != record::session() && !begin(&mut s, &own.stream) {
                return;
            }
            s.append(kind, fields);
            if s.bytes.len() >= FULL || matches!(kind, Kind::Compiled | Kind::Scheduled | Kind::Realized) {
                flush(&mut s);
            }
        });
    }
}

/// A number for this thread, if there is a recording.
fn thread_number(join: impl FnOnce(u32, &mut Threads)) -> Option<u32> {
    let mut threads = lock(&THREADS);
    let threads = threads.as_mut()?;
    threads.count += 1;
    join(threads.count, threads);
    Some(threads.count)
}

/// Let a thread's stream be part of the recording there is.
fn begin(s: &mut Stream, own: &Arc<Mutex<Stream>>) -> bool {
    *s = Stream { session: record::session(), ..Stream::default() };
    let Some(number) = thread_number(|_, t| t.streams.push(Arc::downgrade(own))) else { return false };
    s.thread = number;
    let name = std::thread::current().name().unwrap_or("").to_string();
    s.append(Kind::Thread, &[Field::Text(&name)]);
    true
}

impl Quick {
    /// Let a thread's ring be part of the profile there is.
    fn begin(&mut self) {
        *self = Quick { session: record::session(), ..Quick::default() };
        thread_number(|n, t| {
            let ring = Arc::new(Ring::new());
            t.rings.push((n, ring.clone()));
            (self.ring, self.recorder) = (Some(ring), t.recorder.clone());
        });
        if self.ring.is_some() {
            let name = std::thread::current().name().unwrap_or("").to_string();
            self.put(Kind::Thread, &[Field::Text(&name)]);
        }
    }
    #[inline]
    fn write(&mut self, kind: Kind, fields: &[Field]) {
        if self.session != record::session() {
            self.begin();
        }
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            self.put(Kind::Lost, &[Field::Int(record::now()), Field::Int(lost)]);
            // where that found no room it counts for itself
            self.lost += if self.lost > 0 { lost - 1 } else { 0 };
        }
        self.put(kind, fields);
    }
    #[inline]
    fn put(&mut self, kind: Kind, fields: &[Field]) {
        debug_assert_eq!(fields.len(), KINDS[kind as usize].1.len(), "{kind:?}");
        let Some(ring) = &self.ring else { return };
        let mut words = [0u64; 13];
        words[0] = kind as u64 | (fields.len() as u64) << 8;
        for (word, field) in words[1..].iter_mut().zip(fields) {
            *word = match field {
                Field::Int(n) => *n,
                // those who empty rings write all texts there are
                Field::Name(_) | Field::Text(_) => self.known.number(field, |_, _| ()).into(),
                // no record of what runs has one
                Field::Long(_) | Field::List(_) => return,
            };
        }
        match ring.put(&words[..=fields.len()]) {
            None => self.lost += 1,
            Some(full) if full > Ring::CAPACITY / 2 && full - fields.len() - 1 <= Ring::CAPACITY / 2 => {
                self.recorder.iter().for_each(Thread::unpark);
            }
            Some(_) => {}
        }
    }
}

impl Stream {
    fn append(&mut self, kind: Kind, fields: &[Field]) {
        debug_assert_eq!(fields.len(), KINDS[kind as usize].1.len(), "{kind:?}");
        // a text that is new stands before the record that names it
        let mut numbers = [0u32; 12];
        for (number, field) in numbers.iter_mut().zip(fields) {
            *number = self.known.number(field, |n, text| put_string(n, text, &mut self.bytes));
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

impl Open {
    /// Records of a thread go to the file.
    fn write(&mut self, thread: u32, bytes: &[u8]) {
        let chunk = match &mut self.trace {
            Some(trace) => trace.of(thread, bytes),
            None => chunk(thread, bytes),
        };
        if let Err(e) = self.write_closed(chunk) {
            record::set_level(0);
            self.failure.get_or_insert(e.to_string());
        }
    }
    /// Append to the file. A trace has an end after all that is written, which the next write replaces: nothing may follow.
    fn write_closed(&mut self, mut bytes: Vec<u8>) -> std::io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = bytes.len();
        self.trace.iter().for_each(|t| t.tracer.tail(&mut bytes));
        self.file.write_all(&bytes)?;
        if bytes.len() > written {
            self.file.seek(SeekFrom::Current(-((bytes.len() - written) as i64)))?;
        }
        Ok(())
    }
    /// Texts that the file has not go to it.
    fn tell_texts(&mut self) {
        let new: Vec<Arc<str>> =
            lock(&TEXTS).as_ref().map_or(vec![], |t| t.all.get(self.told..).unwrap_or(&[]).to_vec());
        let first = self.told;
        self.told += new.len();
        match &mut self.trace {
            Some(trace) => trace.texts.extend(new),
            None if new.is_empty() => {}
            None => {
                let mut bytes = vec![];
                new.iter().enumerate().for_each(|(i, t)| put_string((first + i) as u32, t, &mut bytes));
                self.write(0, &bytes);
            }
        }
    }
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
        open.write(s.thread, &bytes);
    }
    s.bytes = bytes;
    s.bytes.clear();
}

/// Empty every ring into the file.
fn gather() {
    let mut open = lock(&OPEN);
    let Some(open) = open.as_mut().filter(|o| o.generation == generation()) else { return };
    let rings = lock(&THREADS).as_ref().map_or(vec![], |t| t.rings.clone());
    let (mut words, mut bytes) = (vec![], vec![]);
    for (thread, ring) in rings {
        words.clear();
        ring.take(&mut words);
        let mut rest = &words[..];
        while let Some((first, more)) = rest.split_first() {
            let Some((fields, after)) = more.split_at_checked((first >> 8) as usize) else { break };
            put(&mut bytes, first & 0xFF);
            fields.iter().for_each(|n| put(&mut bytes, *n));
            rest = after;
            if bytes.len() >= FULL || rest.is_empty() {
                // whatever a record names was numbered before it was put in
                open.tell_texts();
                open.write(thread, &bytes);
                bytes.clear();
            }
        }
    }
    if let Some(threads) = &mut *lock(&THREADS) {
        threads.rings.retain(|(_, ring)| !ring.is_done());
    }
}

/// What the thread does that empties rings, until the recording ends.
fn run_recorder(session: u32) {
    while record::session() == session {
        std::thread::park_timeout(ROUND);
        record::settle(false);
        let _ = STREAM.try_with(|own| own.get().iter().for_each(|own| flush(&mut lock(&own.stream))));
        gather();
        ROUNDS.fetch_add(1, Ordering::Release);
    }
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
    /// Whether there is one, which another one would have to wait for.
    pub fn is_under_way() -> bool {
        lock(&OPEN).is_some()
    }
    fn begin_at(path: &Path, level: u8, form: Option<Form>) -> Result<Recording, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut open = lock(&OPEN);
        if open.is_some() {
            return Err("a recording is under way: there is one at a time".into());
        }
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        // a child that inherits FRIT_VIZ must not overwrite what its parent writes
        file.try_lock().map_err(|_| format!("{}: another process records to it", path.display()))?;
        file.set_len(0).map_err(failed)?;
        let mut trace = form.map(Trace::new).transpose()?;
        let mut first = vec![];
        match &mut trace {
            Some(trace) => trace.tracer.head(&mut first),
            None => first = head(),
        }
        let mut begun = Open { file, generation: generation(), trace, told: 0, failure: None };
        begun.write_closed(first).map_err(failed)?;
        *open = Some(begun);
        *lock(&TEXTS) = Some(Texts::default());
        number_of("");
        record::new_session();
        let session = record::session();
        let recorder = std::thread::Builder::new().name("frit-recorder".into());
        let recorder = recorder.spawn(move || run_recorder(session)).map_err(|e| {
            *open = None;
            failed(e)
        })?;
        let (owner, recorder) = (Some(std::thread::current().id()), Some(recorder.thread().clone()));
        *lock(&THREADS) = Some(Threads { owner, recorder, ..Threads::default() });
        drop(open);
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
    // times that are not known yet are waited for while they can still be written
    if is_own_process() {
        record::settle(true);
    }
    record::set_level(0);
    let streams = lock(&THREADS).as_ref().map_or(vec![], |threads| threads.streams.clone());
    for stream in streams.iter().filter_map(Weak::upgrade) {
        flush(&mut lock(&stream));
    }
    gather();
    record::new_session();
    if let Some(Threads { recorder: Some(recorder), .. }) = lock(&THREADS).take() {
        recorder.unpark();
    }
    match lock(&OPEN).take().and_then(|open| open.failure) {
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
    // kinds have other numbers in a file of another version
    let rows = read_head(&bytes)?.0;
    let kind = |name: &str| {
        let at = rows.iter().position(|r| r.name == name);
        at.map(|at| (at as u64, &rows[at])).ok_or_else(|| format!("the recording has no kind {name:?}"))
    };
    let ((string, _), (row_number, row)) = (kind("string")?, kind("device")?);
    let mut body = vec![];
    for (i, text) in [device, about].into_iter().enumerate() {
        put(&mut body, string);
        put(&mut body, first + i as u64);
        put(&mut body, text.len() as u64);
        body.extend(text.as_bytes());
    }
    put(&mut body, row_number);
    for (name, _) in &row.fields {
        let known = [("name", first), ("about", first + 1), ("flops", flops), ("bytes", moved)];
        // 0 is no number, no text and an empty list
        put(&mut body, known.iter().find(|k| k.0 == name.as_str()).map_or(0, |k| k.1));
    }
    bytes.truncate(bytes.len() - extent.lost);
    bytes.extend(chunk(0, &body));
    Ok(bytes)
}
