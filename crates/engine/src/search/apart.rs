//! A search on a device apart, in a process of its own: a candidate that hangs or faults takes that process and its context
//! along, and nothing else.
//!
//! ```text
//! this process ── kernel, effort, refused, starts ──> child: search_here
//!              <── trying OPTS, idle, best OPTS, found ... ──
//! ```
//!
//! Both speak in lines; the child's begin with a mark, so that whatever else it prints does no harm. A child that ends, says
//! that its device is lost, or takes too long with one candidate is ended; the next one does not try that candidate and
//! begins with the best there was. Which program a child is, the program says ([`in_children`]); where it does not, searches
//! run in its own process.

use super::beam::{Effort, Guide, Tuned, search_here};
use super::trial::{Args, Event};
use crate::progress::Progress;
use crate::{Error, interrupt};
use frit_abi::fork;
use frit_abi::sync::{Mutex, RwLock};
use frit_codegen::Opt;
use frit_uop::{Arg, UOp, text};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Set in a child.
const CHILD: &str = "FRIT_SEARCH_CHILD";
/// What a line of a child's begins with.
const MARK: &str = "frit-search ";
/// Children that one search may cost.
const CHILDREN: usize = 8;
/// How long one candidate may take, at least and at most, and what is given on top of a search's own time.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(60);

type Start = Arc<dyn Fn() -> io::Result<Command> + Send + Sync>;

static START: RwLock<Option<Start>> = RwLock::new(None);
/// A child that waits for the next search.
static WAITING: Mutex<Option<Worker>> = Mutex::new(None);

/// Let searches on GPUs run in processes of their own, which `start` begins and which call this again. To be called before
/// anything else: in such a process it does not return.
///
/// ```no_run
/// frit_engine::search::in_children(|| Ok(std::process::Command::new(std::env::current_exe()?)));
/// ```
pub fn in_children(start: impl Fn() -> io::Result<Command> + Send + Sync + 'static) {
    if std::env::var_os(CHILD).is_some() {
        let served = serve(&mut io::stdin().lock());
        std::process::exit(i32::from(served.is_err()));
    }
    *START.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(start));
}

/// Search for the best opts of a kernel, on data that is made up.
pub fn search(ast: &UOp, device: &Arc<str>, effort: &Effort) -> Result<Tuned, Error> {
    search_on(ast, device, effort, None)
}

/// Search for the best opts of a kernel: as some launch of it runs, where the search is in this process.
pub(crate) fn search_on(
    ast: &UOp,
    device: &Arc<str>,
    effort: &Effort,
    launch: Option<Args>,
) -> Result<Tuned, Error> {
    let name = if let Arg::Name(n) = &ast.arg { n } else { "a kernel" };
    let progress = Progress::new(&format!("searching {name}, ways tried:"), 0);
    let start = START.read().unwrap_or_else(PoisonError::into_inner).clone();
    match start.filter(|_| frit_runtime::device(device).is_ok_and(|d| d.runs_apart())) {
        Some(start) => search_apart(ast, device, effort, &start, &progress),
        None => {
            let watch = |event: Event| {
                if let Event::Trying(_) = event {
                    progress.step();
                }
            };
            search_here(ast, device, effort, launch, &Guide { refused: &[], starts: &[], watch: &watch })
        }
    }
}

// ---- this side

/// What is known when a child is gone.
#[derive(Default)]
struct Known {
    refused: Vec<Vec<Opt>>,
    best: Option<Vec<Opt>>,
}

fn search_apart(
    ast: &UOp,
    device: &Arc<str>,
    effort: &Effort,
    start: &Start,
    progress: &Progress,
) -> Result<Tuned, Error> {
    let (begun, mut known) = (Instant::now(), Known::default());
    let mut worker = WAITING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if worker.as_ref().is_some_and(|w| w.generation != fork::generation()) {
        // it is that of the process which this one was forked from
        std::mem::forget(worker.take());
    }
    for nth in 1..=CHILDREN {
        let mut child = match worker.take() {
            Some(child) => child,
            None => Worker::new(start)?,
        };
        // where none is left, and at last, a child only says what is known
        let left = if nth < CHILDREN { effort.time.saturating_sub(begun.elapsed()) } else { Duration::ZERO };
        let ended = child.search(ast, device, &Effort { time: left, ..*effort }, &mut known, progress);
        match ended? {
            Ended::Found(tuned) => {
                *WAITING.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
                return Ok(Tuned { took: begun.elapsed(), ..tuned });
            }
            Ended::Failed(why) => {
                *WAITING.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
                return Err(Error::Schedule(why));
            }
            // the next child leaves out what this one was trying
            Ended::Gone(Some(opts)) => known.refused.push(opts),
            Ended::Gone(None) => break,
        }
    }
    Err(Error::Schedule("the process that searches for a kernel's opts ends again and again".into()))
}

/// How a child's search ended.
enum Ended {
    Found(Tuned),
    Failed(String),
    /// The child is of no use any more; what it was trying.
    Gone(Option<Vec<Opt>>),
}

/// A child. Dropping it ends it.
struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// In which process it was started.
    generation: u64,
}

impl Drop for Worker {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Worker {
    fn new(start: &Start) -> Result<Worker, Error> {
        let failed = |e: io::Error| Error::Schedule(format!("no process to search in: {e}"));
        let mut command = start().map_err(failed)?;
        command.env(CHILD, "1").env_remove("FRIT_BEAM").env_remove("FRIT_DEBUG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let missing = || failed(io::ErrorKind::BrokenPipe.into());
        let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or_else(missing)?;
        let (send, lines) = channel();
        let read = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK)
                    && send.send(line.to_string()).is_err()
                {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("frit-search".into()).spawn(read).map_err(failed)?;
        Ok(Worker { child, input, lines, generation: fork::generation() })
    }

    fn search(
        &mut self,
        ast: &UOp,
        device: &str,
        effort: &Effort,
        known: &mut Known,
        progress: &Progress,
    ) -> Result<Ended, Error> {
        let starts: Vec<Vec<Opt>> = known.best.iter().cloned().collect();
        let asked = Request {
            ast: ast.clone(),
            device: device.into(),
            effort: *effort,
            refused: known.refused.clone(),
            starts,
        };
        if self.input.write_all(asked.print().as_bytes()).and_then(|()| self.input.flush()).is_err() {
            return Ok(Ended::Gone(None));
        }
        let longest = effort.time.clamp(SHORTEST, LONGEST);
        let end = Instant::now() + effort.time + GRACE;
        let mut trying: Option<(Vec<Opt>, Instant)> = None;
        loop {
            interrupt::check()?;
            let is_late = trying.as_ref().is_some_and(|(_, since)| since.elapsed() > longest);
            if is_late || Instant::now() > end {
                return Ok(Ended::Gone(trying.map(|t| t.0)));
            }
            let line = match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(Ended::Gone(trying.map(|t| t.0))),
            };
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "trying" => {
                    progress.step();
                    trying = parse_list(rest).map(|opts| (opts, Instant::now()));
                }
                "idle" => trying = None,
                "best" => known.best = parse_list(rest),
                "found" => return Ok(parse_found(rest).map_or(Ended::Gone(None), Ended::Found)),
                "failed" => return Ok(Ended::Failed(rest.into())),
                "lost" => return Ok(Ended::Gone(parse_list(rest))),
                _ => {}
            }
        }
    }
}

// ---- the lines

/// What a child is asked.
struct Request {
    ast: UOp,
    device: Arc<str>,
    effort: Effort,
    refused: Vec<Vec<Opt>>,
    starts: Vec<Vec<Opt>>,
}

fn print_list(opts: &[Opt]) -> String {
    opts.iter().map(Opt::to_string).collect::<Vec<_>>().join(",")
}
fn parse_list(line: &str) -> Option<Vec<Opt>> {
    line.split(',').map(str::trim).filter(|o| !o.is_empty()).map(|o| o.parse().ok()).collect()
}
fn print_found(t: &Tuned) -> String {
    format!("{} {} {} {}", t.before.as_nanos(), t.after.as_nanos(), t.tried, print_list(&t.opts))
}
fn parse_found(line: &str) -> Option<Tuned> {
    let mut words = line.splitn(4, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (before, after, tried) = (number()?, number()?, number()? as usize);
    let opts = parse_list(words.next().unwrap_or(""))?;
    let [before, after] = [before, after].map(Duration::from_nanos);
    Some(Tuned { opts, before, after, tried, took: Duration::ZERO })
}

impl Request {
    /// A line of numbers, then as many lines as they say.
    fn print(&self) -> String {
        let ast = text::print(&self.ast);
        let (width, ms) = (self.effort.width, self.effort.time.as_millis());
        let counts = [ast.lines().count(), self.refused.len(), self.starts.len()];
        let [lines, refused, starts] = counts;
        let mut all = format!("search {} {width} {ms} {lines} {refused} {starts}\n", self.device);
        for line in ast.lines() {
            all += &format!("{line}\n");
        }
        for list in self.refused.iter().chain(&self.starts) {
            all += &format!("{}\n", print_list(list));
        }
        all
    }
    /// The next one; `None` at the end of the input or where it means nothing.
    fn read(from: &mut dyn BufRead) -> Option<Request> {
        let mut next = || {
            let mut line = String::new();
            from.read_line(&mut line).ok().filter(|n| *n > 0)?;
            Some(line)
        };
        let head = next()?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let ["search", device, width, ms, lines, refused, starts] = words[..] else { return None };
        let number = |w: &str| w.parse::<usize>().ok();
        let text = (0..number(lines)?).map(|_| next()).collect::<Option<String>>()?;
        let mut lists = |n: &str| (0..number(n)?).map(|_| parse_list(&next()?)).collect::<Option<Vec<_>>>();
        let (refused, starts) = (lists(refused)?, lists(starts)?);
        let effort = Effort { width: number(width)?, time: Duration::from_millis(number(ms)? as u64) };
        Some(Request { ast: text::parse(&text).ok()?, device: device.into(), effort, refused, starts })
    }
}

// ---- the child's side

/// Write a line at once.
fn say(word: &str, rest: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // whatever was printed before it has a line of its own
    write!(out, "\n{MARK}{word} {rest}\n")?;
    out.flush()
}

/// Do searches until no one asks for another, or the device is lost.
fn serve(from: &mut dyn BufRead) -> io::Result<()> {
    while let Some(asked) = Request::read(from) {
        let trying = Mutex::new(vec![]);
        let watch = |event: Event| {
            // a parent that is gone ends this process when it asks for the next request
            _ = match event {
                Event::Trying(opts) => {
                    *trying.lock().unwrap_or_else(PoisonError::into_inner) = opts.to_vec();
                    say("trying", &print_list(opts))
                }
                Event::Idle => say("idle", ""),
                Event::Best(opts) => say("best", &print_list(opts)),
            };
        };
        let guide = Guide { refused: &asked.refused, starts: &asked.starts, watch: &watch };
        match search_here(&asked.ast, &asked.device, &asked.effort, None, &guide) {
            Ok(tuned) => say("found", &print_found(&tuned))?,
            Err(e) => {
                let device = frit_runtime::device(&asked.device);
                if device.is_ok_and(|d| d.synchronize().is_err()) {
                    let trying = trying.into_inner().unwrap_or_else(PoisonError::into_inner);
                    return say("lost", &print_list(&trying));
                }
                say("failed", &e.to_string().replace('\n', " "))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_as_they_were_written() {
        let bytes = vec![0; 64];
        let x = crate::from_bytes("INTERP", frit_abi::DType::F32, 16, &bytes).unwrap();
        let ast = crate::measure::schedule(&[x.clone() + x]).unwrap().kernels[0].ast.clone();
        let list = |s: &str| parse_list(s).unwrap();
        let effort = Effort { width: 3, time: Duration::from_millis(1500) };
        let refused = vec![list("split 0 4 Vector inner"), vec![]];
        let starts = vec![list("split 0 2 Upcast outer,pad 0 3")];
        let asked = Request { ast, device: "CUDA:1".into(), effort, refused, starts };
        let text = asked.print();
        let mut from = text.as_bytes();
        let read = Request::read(&mut from).unwrap();
        assert_eq!((&read.ast, &read.device), (&asked.ast, &asked.device));
        assert_eq!((&read.refused, &read.starts), (&asked.refused, &asked.starts));
        assert_eq!((read.effort.width, read.effort.time), (3, effort.time));
        assert!(Request::read(&mut from).is_none() && Request::read(&mut &b"search x\n"[..]).is_none());
        let tuned =
            Tuned { opts: asked.starts[0].clone(), before: LONGEST, after: GRACE, tried: 7, took: GRACE };
        let back = parse_found(&print_found(&tuned)).unwrap();
        assert_eq!((back.opts, back.before, back.after, back.tried), (tuned.opts, LONGEST, GRACE, 7));
    }
}
