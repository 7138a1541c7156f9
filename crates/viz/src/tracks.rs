//! The timeline as pyramids: drawing follows pixels, not events.
//!
//! A track has lanes (spans inside spans lie in lanes below them), a lane has levels, a level has blocks. Level 0 has every
//! event; an entry of the next one stands for eight of the level below: from the first's start to the last's end, with how long
//! they took together. A block is a part of the pack: starts and lengths as 64-bit floats in nanoseconds since the first
//! event, then two 32-bit numbers an entry: on level 0 the name and what it belongs to, above how many events and the part of
//! the time, in thousandths, that they took.

use crate::model::{Model, NodeId};
use crate::parts::Parts;
use frit_recording::json::Json;
use rustc_hash::FxHashMap;

/// Entries of a level that are one in the next.
const FACTOR: usize = 8;
/// What an event belongs to is a text.
const DETAIL: u32 = 1 << 31;
/// Entries of a block.
const BLOCK: usize = 16384;

/// Something on a track: when it began, how long it took, what it is called and what it belongs to: a kernel's number and
/// one, a text with [`DETAIL`], or 0.
#[derive(Clone, Copy)]
struct Event {
    at: u64,
    ns: u64,
    name: u32,
    of: u32,
}

/// Texts of the timeline.
#[derive(Default)]
struct Names<'m> {
    all: Vec<&'m str>,
    number: FxHashMap<&'m str, u32>,
}

impl<'m> Names<'m> {
    fn of(&mut self, text: &'m str) -> u32 {
        *self.number.entry(text).or_insert_with(|| {
            self.all.push(text);
            self.all.len() as u32 - 1
        })
    }
}

/// The tracks of a recording, as part of the index, their blocks as parts.
pub fn write(m: &Model, known: &FxHashMap<NodeId, usize>, parts: &mut Parts, j: &mut Json) {
    let (begin, end) = m.bounds();
    let mut names = Names::default();
    let tracks = tracks(m, known, &mut names);
    j.key("begin").int(begin).key("ns").int(end.saturating_sub(begin));
    j.key("names").list(|j| names.all.iter().for_each(|n| _ = j.text(n)));
    j.key("tracks").list(|j| {
        for (name, kind, events) in tracks {
            j.object(|j| {
                j.key("name").text(&name).key("kind").text(kind).key("events").int(events.len() as u64);
                j.key("lanes").list(|j| {
                    for lane in lanes(events) {
                        j.list(|j| levels(&lane, begin, parts, j));
                    }
                });
            });
        }
    });
    memory(m, begin, parts, j);
}

/// Name, kind and events of each track: threads of the host, then devices, then copies.
fn tracks<'m>(
    m: &'m Model,
    known: &FxHashMap<NodeId, usize>,
    names: &mut Names<'m>,
) -> Vec<(String, &'static str, Vec<Event>)> {
    let mut host: FxHashMap<u32, Vec<Event>> = FxHashMap::default();
    let mut devices: Vec<(u32, Vec<Event>)> = vec![];
    let mut copies: Vec<Event> = vec![];
    for s in &m.spans {
        let name = names.of(m.text(s.name));
        let of = if s.detail == 0 { 0 } else { DETAIL | names.of(m.text(s.detail)) };
        host.entry(s.thread).or_default().push(Event { at: s.at, ns: s.ns, name, of });
    }
    for (s, _) in &m.realizes {
        let name = names.of(m.text(s.name));
        host.entry(s.thread).or_default().push(Event { at: s.at, ns: s.ns, name, of: 0 });
    }
    for l in &m.launches {
        let of = known.get(&l.kernel).map_or(0, |k| *k as u32 + 1);
        let name = names.of(m.text(l.name));
        let events = match devices.iter_mut().position(|d| d.0 == l.device) {
            Some(d) => &mut devices[d].1,
            None => {
                devices.push((l.device, vec![]));
                let last = devices.len() - 1;
                &mut devices[last].1
            }
        };
        events.push(Event { at: l.begun, ns: l.took, name, of });
        let launch = names.of(if l.origin == 0 { "launch" } else { m.text(l.origin) });
        host.entry(l.thread).or_default().push(Event { at: l.at, ns: l.ns, name: launch, of });
    }
    for c in &m.copies {
        let name = names.of(m.text(c.what));
        copies.push(Event { at: c.at, ns: c.ns, name, of: 0 });
    }
    let mut threads: Vec<(u32, Vec<Event>)> = host.into_iter().collect();
    threads.sort_by_key(|t| t.0);
    let title = |t: u32| match m.text(m.threads.get(&t).copied().unwrap_or(0)) {
        "" => format!("thread {t}"),
        name => name.to_string(),
    };
    let mut all: Vec<_> = threads.into_iter().map(|(t, e)| (title(t), "host", e)).collect();
    all.extend(devices.into_iter().map(|(d, e)| (m.text(d).to_string(), "device", e)));
    if !copies.is_empty() {
        all.push(("copies".into(), "copy", copies));
    }
    all
}

/// Events in lanes: one that begins inside another lies in a lane below it.
fn lanes(mut events: Vec<Event>) -> Vec<Vec<Event>> {
    events.sort_by_key(|e| (e.at, std::cmp::Reverse(e.ns)));
    let (mut lanes, mut ends): (Vec<Vec<Event>>, Vec<u64>) = (vec![], vec![]);
    for e in events {
        while ends.last().is_some_and(|end| *end <= e.at) {
            ends.pop();
        }
        let depth = ends.len();
        if depth == lanes.len() {
            lanes.push(vec![]);
        }
        lanes[depth].push(e);
        ends.push(e.at + e.ns);
    }
    lanes
}

fn levels(events: &[Event], begin: u64, parts: &mut Parts, j: &mut Json) {
    // start, length, two numbers, and how long what it stands for took
    let first = |e: &Event| ((e.at - begin) as f64, e.ns as f64, e.name, e.of, e.ns as f64, 1u32);
    let mut level: Vec<(f64, f64, u32, u32, f64, u32)> = events.iter().map(first).collect();
    loop {
        j.list(|j| {
            for block in level.chunks(BLOCK) {
                let mut bytes = Vec::with_capacity(24 * block.len());
                block.iter().for_each(|e| bytes.extend(e.0.to_le_bytes()));
                block.iter().for_each(|e| bytes.extend(e.1.to_le_bytes()));
                block.iter().for_each(|e| bytes.extend(e.2.to_le_bytes()));
                block.iter().for_each(|e| bytes.extend(e.3.to_le_bytes()));
                let place = parts.add(&bytes);
                let last = block[block.len() - 1];
                j.list(|j| {
                    j.number(block[0].0).number(last.0 + last.1).int(block.len() as u64);
                    j.int(place[0] as u64).int(place[1] as u64);
                });
            }
        });
        if level.len() <= 2 * FACTOR {
            return;
        }
        let merge = |c: &[(f64, f64, u32, u32, f64, u32)]| {
            let (start, last) = (c[0].0, c[c.len() - 1]);
            let length = last.0 + last.1 - start;
            let busy: f64 = c.iter().map(|e| e.4).sum();
            let count: u32 = c.iter().map(|e| e.5).sum();
            (start, length, count, (1000.0 * busy / length.max(1.0)) as u32, busy, count)
        };
        level = level.chunks(FACTOR).map(merge).collect();
    }
}

/// What is in use over time, and how long each piece of memory lived: a part for each device.
fn memory(m: &Model, begin: u64, parts: &mut Parts, j: &mut Json) {
    let mut devices: Vec<u32> = vec![];
    for e in &m.memory {
        if !devices.contains(&e.device) {
            devices.push(e.device);
        }
    }
    let end = m.bounds().1;
    j.key("memory").list(|j| {
        for d in devices {
            let events: Vec<_> = m.memory.iter().filter(|e| e.device == d).collect();
            let peak = events.iter().map(|e| e.in_use).max().unwrap_or(0);
            let mut bytes = vec![];
            events.iter().for_each(|e| bytes.extend(((e.at - begin) as f64).to_le_bytes()));
            events.iter().for_each(|e| bytes.extend((e.in_use as f64).to_le_bytes()));
            let use_part = parts.add(&bytes);
            let mut lives: Vec<[f64; 3]> = vec![];
            let mut open: FxHashMap<u64, usize> = FxHashMap::default();
            for e in &events {
                if e.is_taken {
                    open.insert(e.address, lives.len());
                    lives.push([(e.at - begin) as f64, (end - begin) as f64, e.bytes as f64]);
                } else if let Some(i) = open.remove(&e.address) {
                    lives[i][1] = (e.at - begin) as f64;
                }
            }
            // the page draws the largest ones
            lives.sort_by(|a, b| (b[2] * (b[1] - b[0])).total_cmp(&(a[2] * (a[1] - a[0]))));
            lives.truncate(4096);
            let mut bytes = vec![];
            (0..3).for_each(|c| lives.iter().for_each(|l| bytes.extend(l[c].to_le_bytes())));
            let life_part = parts.add(&bytes);
            j.object(|j| {
                j.key("device").text(m.text(d)).key("peak").int(peak);
                j.key("count").int(events.len() as u64).key("part").ints(use_part.map(|n| n as u64));
                j.key("buffers").int(lives.len() as u64).key("lives").ints(life_part.map(|n| n as u64));
            });
        }
    });
}
