//! C source to linked images, through the system's C compiler and the disk cache.
//!
//! Source goes in and the object comes out through files without a name, so nothing is ever left behind. Many kernels
//! go to the compiler in one text, since starting it costs as much as compiling a small kernel: each text is kept apart
//! by renaming its entry. So a kernel's source must be complete in itself, and what it defines besides its entry
//! must either be guarded (`#ifndef NAME` / `#define NAME`) or have a name that holds the entry's name. Where that is not
//! so, or one of the kernels has an error, the text is halved until the others compile.

use super::elf::Object;
use super::image::Image;
use super::target;
use crate::cache::{DiskCache, Key};
use crate::sys::ScratchFile;
use crate::{Error, env};
use frit_abi::kernel::ABI_VERSION;
use frit_abi::sync::OnceLock;
use rustc_hash::FxHashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Names that are tried, in this order, where none is asked for. A bare `clang` may be missing where `clang-19` is not.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "clang", "clang-24", "clang-23", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17",
    "clang-16", "clang-15", "clang-14", "gcc", "cc",
];

/// Flags for every kernel.
#[rustfmt::skip]
const FLAGS: &[&str] = &[
    "-x", "c", "-std=gnu11", "-w", "-O2", "-c",
    // The numeric contract: nothing is contracted, assumed not to alias or to overflow, or kept for a trap.
    "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno", "-fno-trapping-math",
    // The loader: position-independent, a section for each function, no calls but those in `libcalls`.
    "-ffreestanding", "-fPIC", "-fno-plt", "-fvisibility=hidden", "-ffunction-sections", "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables", "-fcf-protection=none", "-fno-ident",
];

/// Source in one text for the compiler: enough to make its start cheap.
const BATCH_BYTES: usize = 48 << 10;

/// The C compiler, found when first needed.
pub struct Compiler {
    /// What was asked for; `None` takes the first of [`NAMES`].
    wanted: Option<OsString>,
    found: OnceLock<Result<Found, Error>>,
    cache: Arc<DiskCache>,
    /// How many compilers run at once.
    processes: usize,
    target: String,
}

/// A compiler that answered.
struct Found {
    path: PathBuf,
    version: String,
    flags: Vec<String>,
    /// What it is and what it will be told, for cache keys.
    identity: Vec<u8>,
}

/// One kernel to compile: its entry's name and its text.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Name of the entry: a C identifier.
    pub name: &'a str,
    /// C.
    pub text: &'a str,
}

impl Compiler {
    /// A compiler for the machine of that name: `wanted`, or the first that is found.
    pub fn new(wanted: Option<OsString>, cache: Arc<DiskCache>, processes: usize, target: &str) -> Compiler {
        Compiler { wanted, found: OnceLock::new(), cache, processes: processes.max(1), target: target.into() }
    }

    /// The compiler's path and the first line of what it says of itself.
    pub fn describe(&self) -> Result<String, Error> {
        self.found()
            .map(|f| format!("{} ({})", f.path.display(), f.version.lines().next().unwrap_or_default()))
    }

    /// The images of these kernels, in the same order: from the cache, or compiled together and in parallel.
    pub fn compile(&self, sources: &[Source]) -> Vec<Result<Image, Error>> {
        let found = match self.found() {
            Ok(found) => found,
            Err(e) => return sources.iter().map(|_| Err(e.clone())).collect(),
        };
        let keys: Vec<Key> = sources.iter().map(|s| self.key(found, s)).collect();
        let mut done: FxHashMap<Key, Result<Image, Error>> = FxHashMap::default();
        let mut missing: Vec<(Key, Source)> = Vec::new();
        for (&key, &source) in keys.iter().zip(sources) {
            if done.contains_key(&key) || missing.iter().any(|(k, _)| *k == key) {
                continue;
            }
            if !is_identifier(source.name) {
                done.insert(key, Err(Error::compiler(source.name, "its name is not a C identifier")));
            } else if let Some(image) = self.cache.get(key).and_then(|bytes| Image::from_bytes(&bytes)) {
                done.insert(key, Ok(image));
            } else {
                missing.push((key, source));
            }
        }
        for (key, result) in self.compile_missing(found, &missing) {
            done.insert(key, result);
        }
        let lost = || Err(Error::compiler("", "the compiler lost a kernel"));
        keys.iter().map(|k| done.get(k).cloned().unwrap_or_else(lost)).collect()
    }

    /// Compile in batches, several at once, and store the results.
    fn compile_missing(&self, found: &Found, missing: &[(Key, Source)]) -> Vec<(Key, Result<Image, Error>)> {
        let batches = batches(missing, self.processes);
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sources: Vec<Source> = batch.iter().map(|(_, s)| *s).collect();
                let images = found.compile_batch(&sources);
                for ((key, _), image) in batch.iter().zip(images) {
                    if let Ok(image) = &image {
                        self.cache.put(*key, &image.to_bytes());
                    }
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((*key, image));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.processes.min(batches.len()) {
                // One thread fewer, if the system refuses it, only takes longer.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, found: &Found, source: &Source) -> Key {
        let version = ABI_VERSION.to_le_bytes();
        Key::of(&[
            b"c image 1",
            &version,
            self.target.as_bytes(),
            &found.identity,
            source.name.as_bytes(),
            source.text.as_bytes(),
        ])
    }

    fn found(&self) -> Result<&Found, Error> {
        self.found.get_or_init(|| find(self.wanted.as_deref())).as_ref().map_err(Error::clone)
    }
}

/// Split in runs of about equal size: one for each process, more if they would be too large.
fn batches<'a, 'b>(all: &'a [(Key, Source<'b>)], processes: usize) -> Vec<&'a [(Key, Source<'b>)]> {
    let total: usize = all.iter().map(|(_, s)| s.text.len()).sum();
    let size = (total / processes + 1).min(BATCH_BYTES);
    let mut batches = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (i, (_, source)) in all.iter().enumerate() {
        bytes += source.text.len();
        if bytes >= size || i + 1 == all.len() {
            batches.push(&all[begin..=i]);
            (begin, bytes) = (i + 1, 0);
        }
    }
    batches
}

fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Find the compiler that is wanted, or the first there is, and ask who it is.
fn find(wanted: Option<&OsStr>) -> Result<Found, Error> {
    let names = wanted.map_or_else(|| NAMES.iter().map(OsStr::new).collect(), |w| vec![w]);
    let dirs = env::search_path();
    // A name with a separator is a path and is not searched for.
    let places = |name: &OsStr| match Path::new(name).components().count() {
        1 => dirs.iter().map(|d| d.join(name)).collect(),
        _ => vec![PathBuf::from(name)],
    };
    let Some(path) = names.iter().flat_map(|n| places(n)).find(|p| p.is_file()) else {
        let list: Vec<_> = dirs.iter().map(|d| d.display().to_string()).collect();
        let message = match wanted {
            Some(w) => format!("there is no C compiler FRIT_CC={} (PATH is {})", w.display(), list.join(":")),
            None => format!(
                "CPU kernels need a C compiler: no clang, clang-14 to clang-24, gcc or cc in {}; install one or set FRIT_CC",
                list.join(":")
            ),
        };
        return Err(Error::compiler("", message));
    };
    let output = Command::new(&path).arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|e| Error::compiler("", format!("{} does not run: {e}", path.display())))?;
    if !output.status.success() {
        return Err(Error::compiler(
            "",
            format!("{} --version fails: it is not a C compiler", path.display()),
        ));
    }
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let flags = flags(&version);
    let identity =
        [path.as_os_str().as_encoded_bytes(), version.as_bytes(), flags.join(" ").as_bytes()].join(&0);
    let identity = [identity, target::identity()].concat();
    Ok(Found { path, version, flags, identity })
}

/// What this compiler is told on this machine.
fn flags(version: &str) -> Vec<String> {
    let mut flags: Vec<String> = FLAGS.iter().map(|f| f.to_string()).collect();
    if !version.contains("clang") {
        // Its assembler runs beside it instead of through a file; and predictive commoning of gcc 12 stores back what it
        // has read between the elements of a slice, which belong to other threads.
        flags.extend(["-pipe", "-fno-predictive-commoning"].map(String::from));
    }
    if cfg!(target_arch = "x86_64") {
        flags.push("-march=native".into());
        if target::has_avx512() {
            flags.push("-mprefer-vector-width=512".into());
        }
    } else {
        flags.retain(|f| f != "-fcf-protection=none" && f != "-fno-plt");
        flags.push("-mcpu=native".into());
    }
    flags
}

impl Found {
    /// All of them in one text; each half by itself if that fails.
    fn compile_batch(&self, sources: &[Source]) -> Vec<Result<Image, Error>> {
        if sources.len() <= 1 {
            return sources.iter().map(|s| self.compile_one(s)).collect();
        }
        let entries: Vec<String> =
            sources.iter().enumerate().map(|(i, s)| format!("{}_in{i}", s.name)).collect();
        let mut text = String::new();
        for (source, entry) in sources.iter().zip(&entries) {
            let Source { name, text: body } = source;
            text += &format!("#define {name} {entry}\n#line 1 \"{name}\"\n{body}\n#undef {name}\n");
        }
        let link = |object: &[u8]| {
            let object = Object::parse(object)?;
            entries.iter().map(|e| object.link(e)).collect::<Result<Vec<_>, _>>()
        };
        match self.run(&text).map_err(|e| Error::compiler("", e)).and_then(|object| link(&object)) {
            Ok(images) => images.into_iter().map(Ok).collect(),
            Err(_) => {
                let (one, other) = sources.split_at(sources.len() / 2);
                [self.compile_batch(one), self.compile_batch(other)].concat()
            }
        }
    }

    fn compile_one(&self, source: &Source) -> Result<Image, Error> {
        let text = format!("#line 1 \"{}\"\n{}\n", source.name, source.text);
        let object = self.run(&text).map_err(|e| Error::compiler(source.name, e))?;
        Object::parse(&object).and_then(|o| o.link(source.name)).map_err(|e| match e {
            Error::Object(message) => Error::compiler(source.name, message),
            other => other,
        })
    }

    /// The object that the compiler makes of `text`, or what it complains about.
    fn run(&self, text: &str) -> Result<Vec<u8>, String> {
        let run = || -> io::Result<Result<Vec<u8>, String>> {
            let (source, object) = (ScratchFile::create()?, ScratchFile::create()?);
            let mut input: File = source.file().try_clone()?;
            input.write_all(text.as_bytes())?;
            input.rewind()?;
            let mut command = Command::new(&self.path);
            command.args(&self.flags).arg("-").arg("-o").arg(object.path()).env("LC_ALL", "C");
            let output = command
                .stdin(input)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?
                .wait_with_output()?;
            if !output.status.success() {
                return Ok(Err(complaint(&output.stderr)));
            }
            // A compiler may have put a new file in the old one's place, so it is opened again by name.
            let mut bytes = Vec::new();
            File::open(object.path())?.read_to_end(&mut bytes)?;
            Ok(Ok(bytes))
        };
        run().unwrap_or_else(|e| Err(format!("{} does not run: {e}", self.path.display())))
    }
}

/// The first lines of what a compiler wrote.
fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().take(12).collect();
    if lines.is_empty() { "the compiler failed without a word".into() } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::CacheSetting;
    use std::sync::atomic::AtomicI32;

    #[test]
    fn code_for_other_cpu_features_is_not_taken_from_the_cache() {
        let dir = std::env::temp_dir().join(format!("frit-features-{}", std::process::id()));
        let cache = Arc::new(DiskCache::new(CacheSetting::At(dir.clone()), 1 << 20));
        let source = [Source { name: "nothing", text: "void nothing(void) {}" }];
        let here = Compiler::new(None, cache.clone(), 1, "test");
        assert!(here.compile(&source)[0].is_ok());
        let identity = here.found().unwrap().identity.clone();
        // one that cannot compile gives what is in the cache, or an error
        let with = |identity: Vec<u8>| {
            let found = Found { path: "/nowhere/cc".into(), version: "".into(), flags: vec![], identity };
            let compiler = Compiler {
                found: OnceLock::from(Ok(found)),
                ..Compiler::new(None, cache.clone(), 1, "test")
            };
            compiler.compile(&source)[0].is_ok()
        };
        let mut other = identity.clone();
        // the last words are what the processor says of itself
        *other.last_mut().unwrap() ^= 1;
        let (same, other) = (with(identity), with(other));
        std::fs::remove_dir_all(dir).unwrap();
        assert!(same && !other);
    }

    #[test]
    fn a_slice_stores_to_no_element_of_another() {
        // what a slice leaves out, it must not even store back: another thread may be writing it
        let text =
            "void apart(int *p, int i, int end) { for (; i < end; i++) { (p + i)[0] = i; (p + i)[3] = i; } }";
        let cache = Arc::new(DiskCache::new(CacheSetting::Off, 0));
        let image =
            Compiler::new(None, cache, 1, "test").compile(&[Source { name: "apart", text }]).remove(0);
        let image = image.unwrap().load().unwrap();
        // SAFETY: the text above is such a function.
        let apart: extern "C" fn(*mut i32, i32, i32) = unsafe { std::mem::transmute(image.entry()) };
        let elements = [const { AtomicI32::new(0) }; 4];
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                (0..1_000_000).all(|n| {
                    elements[1].store(n, Ordering::SeqCst);
                    elements[1].load(Ordering::SeqCst) == n
                })
            });
            while !other.is_finished() {
                apart(elements.as_ptr().cast_mut().cast(), 0, 1);
            }
            assert!(other.join().unwrap(), "an element between the two was stored back");
        });
    }
}
