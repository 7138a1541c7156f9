//! Records as a trace that Perfetto opens: Chrome's JSON, or protobuf packets.
//!
//! Both are written as records come, so a trace of a program that crashed is a trace. Threads of the host are tracks, devices
//! are tracks, what is in use of a device's memory is a counter, and a flow leads from each launch to its kernel.

use crate::json::Json;
use crate::reader::Record;
use frit_abi::wire::Writer;
use rustc_hash::FxHashMap;

/// How a trace is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Chrome's trace events: an array of JSON objects, whose end may be missing.
    Json,
    /// Perfetto's packets.
    Perfetto,
}

impl Form {
    /// By the name of a file.
    pub fn of(path: &std::path::Path) -> Option<Form> {
        match path.extension()?.to_str()? {
            "json" => Some(Form::Json),
            "pftrace" | "perfetto-trace" => Some(Form::Perfetto),
            _ => None,
        }
    }
}

/// Processes of the trace.
const HOST: u64 = 1;
const DEVICES: u64 = 2;

/// Writes records as a trace.
pub struct Tracer {
    form: Form,
    /// Tracks that have a name already, by process and number.
    named: FxHashMap<(u64, u64), ()>,
    devices: Vec<String>,
    /// Calls that are open, by thread: when they began, and where.
    open: FxHashMap<u64, Vec<(u64, String)>>,
    /// The parts of the program that the next launch belongs to, by thread.
    origins: FxHashMap<u64, String>,
    flows: u64,
    /// Launches whose device has not come to them yet, by number: name, device, what they do, and their flow.
    queued: FxHashMap<u64, (String, u64, String, u64)>,
}

/// Something on a track.
struct Slice<'a> {
    track: (u64, u64),
    at: u64,
    ns: u64,
    name: &'a str,
    category: &'a str,
    detail: &'a str,
    /// A flow that begins here, or that ends here.
    flow: (Option<u64>, Option<u64>),
}

impl Tracer {
    /// With nothing written.
    pub fn new(form: Form) -> Tracer {
        let (named, open, origins, queued) = Default::default();
        Tracer { form, named, devices: vec![], open, origins, flows: 0, queued }
    }
    /// What stands before everything else.
    pub fn head(&mut self, out: &mut Vec<u8>) {
        if self.form == Form::Json {
            out.extend(b"[\n");
        }
        self.name((HOST, 0), "frit", out);
        self.name((DEVICES, 0), "devices", out);
    }
    /// What stands at the end of a trace that is whole.
    pub fn tail(&self, out: &mut Vec<u8>) {
        if self.form == Form::Json {
            out.extend(b"{}]\n");
        }
    }
    /// A record, where it is one of a trace's; `text` gives texts by number.
    pub fn add<'t>(&mut self, r: &Record, text: &dyn Fn(u64) -> &'t str, out: &mut Vec<u8>) {
        let int = |i| r.int(i);
        let host = (HOST, r.thread);
        match r.row.name.as_str() {
            "thread" => {
                let name = match text(int(0)) {
                    "" => format!("thread {}", r.thread),
                    name => name.to_string(),
                };
                self.name(host, &name, out);
            }
            "span" => {
                self.slice(&Slice { detail: text(int(3)), ..Slice::of(host, r, text(int(2)), "frit") }, out)
            }
            "user" => self.slice(&Slice::of(host, r, text(int(2)), "user"), out),
            "copy" => {
                let bytes = format!("{} bytes", int(2));
                self.slice(&Slice { detail: &bytes, ..Slice::of(host, r, text(int(3)), "copy") }, out);
            }
            "realize" => {
                let at = format!("{} at {}:{}", text(int(1)), text(int(2)), int(3));
                self.open.entry(r.thread).or_default().push((int(0), at));
            }
            "realized" => {
                if let Some((at, name)) = self.open.entry(r.thread).or_default().pop() {
                    let ns = int(0).saturating_sub(at);
                    let slice = Slice {
                        track: host,
                        at,
                        ns,
                        name: &name,
                        category: "call",
                        detail: "",
                        flow: (None, None),
                    };
                    self.slice(&slice, out);
                }
            }
            "origin" => _ = self.origins.insert(r.thread, text(int(0)).to_string()),
            "launch" => {
                self.flows += 1;
                let device = (DEVICES, self.device(text(int(4)), out));
                let name = text(int(3));
                let (start, end) = ((Some(self.flows), None), (None, Some(self.flows)));
                let launch = Slice { detail: name, flow: start, ..Slice::of(host, r, "launch", "launch") };
                self.slice(&launch, out);
                let work = self.work(r.thread, int(7), int(8));
                let (at, ns) = (int(5), int(6));
                let kernel =
                    Slice { track: device, at, ns, name, category: "kernel", detail: &work, flow: end };
                self.slice(&kernel, out);
            }
            "queued" => {
                self.flows += 1;
                let (name, device) = (text(int(4)), self.device(text(int(5)), out));
                let (at, ns, flow) = (int(1), int(2), (Some(self.flows), None));
                let launch =
                    Slice { track: host, at, ns, name: "launch", category: "launch", detail: name, flow };
                self.slice(&launch, out);
                let work = self.work(r.thread, int(6), int(7));
                self.queued.insert(int(0), (name.to_string(), device, work, self.flows));
            }
            "ran" => {
                if let Some((name, device, work, flow)) = self.queued.remove(&int(0)) {
                    let (track, at, ns, flow) = ((DEVICES, device), int(1), int(2), (None, Some(flow)));
                    let kernel =
                        Slice { track, at, ns, name: &name, category: "kernel", detail: &work, flow };
                    self.slice(&kernel, out);
                }
            }
            "lost" => {
                let name = format!("{} records were left out: they came too fast", int(1));
                let (at, flow) = (int(0), (None, None));
                let slice = Slice { track: host, at, ns: 1, name: &name, category: "lost", detail: "", flow };
                self.slice(&slice, out);
                // what was open may have ended among them
                self.open.remove(&r.thread);
            }
            "replay" => {
                let name = format!("replay: {} kernels, one by one while this is recorded", int(1));
                let (at, flow) = (int(0), (None, None));
                let slice =
                    Slice { track: host, at, ns: 1, name: &name, category: "replay", detail: "", flow };
                self.slice(&slice, out);
            }
            "alloc" | "free" => {
                let device = self.device(text(int(1)), out);
                self.counter(device, text(int(1)), int(0), int(4), out);
            }
            _ => {}
        }
    }
    /// What the launch of a thread does, and for which part of the program.
    fn work(&mut self, thread: u64, flops: u64, bytes: u64) -> String {
        let origin = self.origins.remove(&thread).map_or(String::new(), |o| format!("{o}: "));
        format!("{origin}{flops} operations, {bytes} bytes")
    }
    /// The number of a device's track.
    fn device(&mut self, name: &str, out: &mut Vec<u8>) -> u64 {
        if let Some(i) = self.devices.iter().position(|d| d == name) {
            return i as u64 + 1;
        }
        self.devices.push(name.to_string());
        let number = self.devices.len() as u64;
        self.name((DEVICES, number), name, out);
        number
    }
    /// Give a track its name, once; number 0 is the process.
    fn name(&mut self, track: (u64, u64), name: &str, out: &mut Vec<u8>) {
        if self.named.insert(track, ()).is_some() {
            return;
        }
        let (process, number) = track;
        match self.form {
            Form::Json => {
                let what = if number == 0 { "process_name" } else { "thread_name" };
                let mut j = Json::new();
                j.object(|j| {
                    j.key("ph")
                        .text("M")
                        .key("pid")
                        .int(process)
                        .key("tid")
                        .int(number)
                        .key("name")
                        .text(what);
                    j.key("args").object(|j| _ = j.key("name").text(name));
                });
                line(j, out);
            }
            Form::Perfetto => {
                let id = Writer::new().int(1, uuid(track));
                let track = match number {
                    0 => id.message(3, Writer::new().int(1, process as i64).bytes(6, name)),
                    _ => {
                        let thread =
                            Writer::new().int(1, process as i64).int(2, (process * 1000 + number) as i64);
                        id.message(4, thread.bytes(5, name))
                    }
                };
                packet(Writer::new().message(60, track), out);
            }
        }
    }
    fn slice(&mut self, s: &Slice, out: &mut Vec<u8>) {
        match self.form {
            Form::Json => {
                let micros = |ns: u64| ns as f64 / 1e3;
                let (process, thread) = s.track;
                let mut j = Json::new();
                j.object(|j| {
                    j.key("ph").text("X").key("pid").int(process).key("tid").int(thread);
                    j.key("ts").number(micros(s.at)).key("dur").number(micros(s.ns));
                    j.key("name").text(s.name).key("cat").text(s.category);
                    if !s.detail.is_empty() {
                        j.key("args").object(|j| _ = j.key("detail").text(s.detail));
                    }
                });
                line(j, out);
                let (start, end) = s.flow;
                for (flow, phase) in [(start, "s"), (end, "f")] {
                    let Some(flow) = flow else { continue };
                    let mut j = Json::new();
                    j.object(|j| {
                        j.key("ph").text(phase).key("pid").int(process).key("tid").int(thread);
                        j.key("ts").number(micros(s.at)).key("id").int(flow).key("name").text("launch");
                        j.key("cat").text("launch").key("bp").text("e");
                    });
                    line(j, out);
                }
            }
            Form::Perfetto => {
                let event = |kind: i64| Writer::new().int(9, kind).int(11, uuid(s.track));
                let mut begin = event(1).bytes(22, s.category).bytes(23, s.name);
                if !s.detail.is_empty() {
                    begin = begin.message(4, Writer::new().bytes(10, "detail").bytes(6, s.detail));
                }
                if let Some(flow) = s.flow.0 {
                    begin = begin.fixed(47, flow);
                }
                if let Some(flow) = s.flow.1 {
                    begin = begin.fixed(48, flow);
                }
                let at = |ns: u64| Writer::new().int(8, ns as i64);
                packet(at(s.at).message(11, begin), out);
                packet(at(s.at + s.ns).message(11, event(2)), out);
            }
        }
    }
    fn counter(&mut self, device: u64, name: &str, at: u64, value: u64, out: &mut Vec<u8>) {
        match self.form {
            Form::Json => {
                let mut j = Json::new();
                j.object(|j| {
                    j.key("ph").text("C").key("pid").int(DEVICES).key("ts").number(at as f64 / 1e3);
                    j.key("name").text(&format!("{name} memory"));
                    j.key("args").object(|j| _ = j.key("bytes").int(value));
                });
                line(j, out);
            }
            Form::Perfetto => {
                let track = (DEVICES, 500 + device);
                if self.named.insert(track, ()).is_none() {
                    let counter = Writer::new().int(3, 3);
                    let parent = uuid((DEVICES, 0));
                    let described = Writer::new().int(1, uuid(track)).bytes(2, format!("{name} memory"));
                    packet(Writer::new().message(60, described.int(5, parent).message(8, counter)), out);
                }
                let event = Writer::new().int(9, 4).int(11, uuid(track)).int(30, value as i64);
                packet(Writer::new().int(8, at as i64).message(11, event), out);
            }
        }
    }
}

impl<'a> Slice<'a> {
    /// Of a record that begins with when it began and how long it took.
    fn of(track: (u64, u64), r: &Record, name: &'a str, category: &'a str) -> Slice<'a> {
        Slice { track, at: r.int(0), ns: r.int(1), name, category, detail: "", flow: (None, None) }
    }
}

fn line(j: Json, out: &mut Vec<u8>) {
    out.extend(j.finish().as_bytes());
    out.extend(b",\n");
}

/// The number of a track in the whole trace.
fn uuid((process, number): (u64, u64)) -> i64 {
    (process * 100_000 + number) as i64
}

/// A packet of one sequence.
fn packet(content: Writer, out: &mut Vec<u8>) {
    out.extend(Writer::new().message(1, content.int(10, 1)).into_bytes());
}
