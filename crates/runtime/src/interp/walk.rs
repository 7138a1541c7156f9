//! Running a decoded program: a lane advances to the next barrier; a block is its lanes in random order.

use super::alu;
use super::copies::{self, Copies};
use super::decode::{Access, Decoded, Guard, Op, Operand};
use super::memory::{Buffers, Locals};
use super::random::Random;
use frit_abi::bytecode::{Hardware, Memory};
use frit_abi::{Alu, LaunchDims};

/// Lanes that exchange values.
const WARP: usize = 32;

/// What went wrong, and at which operation.
pub struct Fault {
    /// The operation, or `None` where no single one is to blame.
    pub op: Option<usize>,
    /// What it did.
    pub message: String,
}

/// What a launch gives besides its buffers: the status word.
pub type Outcome = Result<u32, Box<Fault>>;

/// Everything the lanes of a launch share.
pub struct Machine<'a> {
    pub program: &'a Decoded,
    pub buffers: Buffers,
    pub locals: Locals,
    pub variables: &'a [i64],
    pub dims: LaunchDims,
    pub random: Random,
    /// A vector access must lie on a multiple of its size.
    pub aligned: bool,
    pub status: u32,
}

/// Where a lane stands.
struct Lane {
    registers: Vec<u64>,
    vars: Vec<u64>,
    /// Which elements of the variables have been written.
    written: Vec<bool>,
    pc: usize,
    /// Who it is to the local arrays: its number in the block, or its agent where there are no blocks.
    local: u32,
    /// Who it is to the buffers: a number of its own in the launch plus one; 0 outside the thread loop.
    agent: u32,
    /// Its place: block, then lane in the block.
    ids: [[u32; 3]; 2],
    /// Its slice of the thread axis.
    slice: (i64, i64),
    /// What it copies and has not waited for.
    copies: Copies,
}

/// Why a lane stopped.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    Barrier,
    /// Before an operation that the lanes of a warp do together.
    Warp,
    Done,
}

impl Lane {
    fn new(program: &Decoded) -> Lane {
        Lane {
            registers: program.registers.clone(),
            vars: vec![0; program.var_len],
            written: vec![false; program.var_len],
            pc: 0,
            local: 0,
            agent: 0,
            ids: [[0; 3]; 2],
            slice: (0, 1),
            copies: Copies::default(),
        }
    }
    fn restart(&mut self) {
        self.pc = 0;
        self.agent = 0;
        self.written.fill(false);
        self.copies.clear();
    }
    #[inline]
    fn get(&self, slot: u32) -> u64 {
        self.registers[slot as usize]
    }
    #[inline]
    fn lane(&self, o: Operand, i: u32) -> u64 {
        self.registers[(o.slot + o.step * i) as usize]
    }
    #[inline]
    fn set(&mut self, slot: u32, raw: u64) {
        self.registers[slot as usize] = raw;
    }
}

impl Machine<'_> {
    /// Run the thread axis in random slices, in random order, as if each were another thread.
    pub fn run_slices(&mut self) -> Outcome {
        let mut lane = Lane::new(self.program);
        for slice in slices(self.dims.thread_extent, &mut self.random) {
            lane.restart();
            lane.slice = slice;
            lane.local = 0;
            self.locals.begin();
            while !matches!(self.advance(&mut lane)?, Stop::Done) {}
        }
        Ok(self.status)
    }

    /// Run every block of the grid, in random order.
    pub fn run_grid(&mut self) -> Outcome {
        let [global, local] = [self.dims.global, self.dims.local].map(|d| d.map(u64::from));
        let blocks: u64 = global.iter().product();
        let size: u64 = local.iter().product();
        // without barriers a lane runs to its end at once, so one set of registers serves all
        let meets = self.program.has_barrier || self.program.meets_in_warps;
        let sets = if meets { size } else { size.min(1) };
        let mut lanes: Vec<Lane> = (0..sets).map(|_| Lane::new(self.program)).collect();
        let mut order: Vec<u32> = (0..size as u32).collect();
        for block in self.random.scattered(blocks) {
            self.locals.begin();
            let place = place_of(block, global);
            if meets {
                for (i, lane) in lanes.iter_mut().enumerate() {
                    lane.take_place(block, place, i as u32, local);
                }
                self.run_block(&mut lanes, &mut order)?;
                continue;
            }
            self.random.shuffle(&mut order);
            for &i in &order {
                lanes[0].take_place(block, place, i, local);
                self.advance(&mut lanes[0])?;
            }
        }
        Ok(self.status)
    }

    /// Run the lanes of a block from barrier to barrier until all are done.
    fn run_block(&mut self, lanes: &mut [Lane], order: &mut [u32]) -> Result<(), Box<Fault>> {
        loop {
            self.random.shuffle(order);
            let (mut waiting, mut done) = (None, None);
            let stops = self.advance_all(lanes, order)?;
            for &i in order.iter() {
                match stops[i as usize] {
                    Stop::Barrier => {
                        let at = lanes[i as usize].pc - 1;
                        let first = *waiting.get_or_insert((at, i));
                        if first.0 != at {
                            let message = format!("lane {i} waits here, lane {} at another barrier", first.1);
                            return Err(Box::new(Fault { op: Some(at), message }));
                        }
                    }
                    Stop::Done | Stop::Warp => done = Some(i),
                }
            }
            match (waiting, done) {
                (None, _) => return Ok(()),
                (Some((at, lane)), Some(other)) => {
                    let message = format!("lane {lane} waits at this barrier, lane {other} never comes");
                    return Err(Box::new(Fault { op: Some(at), message }));
                }
                (Some(_), None) => self.locals.barrier(),
            }
        }
    }

    /// Run the lanes of a block to the next barrier or the end; those of a warp come together for matrix units and exchanges.
    fn advance_all(&mut self, lanes: &mut [Lane], order: &[u32]) -> Result<Vec<Stop>, Box<Fault>> {
        let mut stops = vec![Stop::Done; lanes.len()];
        for &i in order {
            stops[i as usize] = self.advance(&mut lanes[i as usize])?;
        }
        while let Some(i) = stops.iter().position(|s| *s == Stop::Warp) {
            let at = lanes[i].pc;
            let together = match &self.program.ops[at] {
                Op::Matrix(matrix) => matrix.lanes(),
                Op::LaneShuffle { .. } | Op::LoadMatrix(_) => WARP,
                _ => break,
            };
            let first = i / together * together;
            let warp = first..first + together;
            let is_here = |n: usize| stops.get(n) == Some(&Stop::Warp) && lanes[n].pc == at;
            if let Some(other) = warp.clone().find(|n| !is_here(*n)) {
                let message = format!("lane {i} is at this operation of its warp, lane {other} is not");
                return Err(Box::new(Fault { op: Some(at), message }));
            }
            match &self.program.ops[at] {
                Op::Matrix(matrix) => {
                    let mut registers: Vec<&mut [u64]> =
                        lanes[warp.clone()].iter_mut().map(|l| &mut l.registers[..]).collect();
                    matrix.run(&mut registers);
                }
                Op::LoadMatrix(f) => {
                    let row = |l: &Lane| (l.get(f.idx) as i64, l.local);
                    let rows: Vec<(i64, u32)> = lanes[warp.clone()].iter().map(row).collect();
                    let words = copies::fragments(f, &rows, &mut self.locals).map_err(|(n, m)| {
                        Box::new(Fault { op: Some(at), message: lanes[first + n].locate(m) })
                    })?;
                    for (lane, words) in lanes[warp.clone()].iter_mut().zip(words) {
                        words.iter().enumerate().for_each(|(i, w)| lane.set(f.dst + i as u32, *w));
                    }
                }
                &Op::LaneShuffle { dst, src, bit } => {
                    let all: Vec<u64> = lanes[warp.clone()].iter().map(|l| l.get(src)).collect();
                    for (n, lane) in lanes[warp.clone()].iter_mut().enumerate() {
                        lane.set(dst, all[(n ^ bit as usize) % WARP]);
                    }
                }
                _ => {}
            }
            for n in warp {
                lanes[n].pc += 1;
                stops[n] = self.advance(&mut lanes[n])?;
            }
        }
        Ok(stops)
    }

    /// Run a lane until it has passed to a barrier, or come to an operation of its warp or the end.
    fn advance(&mut self, lane: &mut Lane) -> Result<Stop, Box<Fault>> {
        let program = self.program;
        let mut pc = lane.pc;
        let fault = |pc: usize, message: String| Box::new(Fault { op: Some(pc), message });
        while let Some(op) = program.ops.get(pc) {
            match op {
                &Op::One { f, dst, a } => lane.set(dst, f(lane.get(a))),
                &Op::Two { f, dst, a, b } => lane.set(dst, f(lane.get(a), lane.get(b))),
                &Op::Three { f, dst, a, b, c } => lane.set(dst, f(lane.get(a), lane.get(b), lane.get(c))),
                &Op::LoadBuffer { dst, buf, idx } => {
                    let idx = lane.get(idx) as i64;
                    let raw =
                        self.buffers.read(buf, idx, lane.agent).map_err(|m| fault(pc, lane.locate(m)))?;
                    lane.set(dst, raw);
                }
                &Op::StoreBuffer { buf, idx, value } => {
                    let (idx, raw) = (lane.get(idx) as i64, lane.get(value));
                    self.buffers.write(buf, idx, raw, lane.agent).map_err(|m| fault(pc, lane.locate(m)))?;
                }
                &Op::LoadVar { dst, var, lanes } => {
                    for i in 0..lanes {
                        if !lane.written[(var + i) as usize] {
                            return Err(fault(
                                pc,
                                lane.locate("the variable is read before it is written".into()),
                            ));
                        }
                        lane.set(dst + i, lane.vars[(var + i) as usize]);
                    }
                }
                &Op::StoreVar { var, value, lanes } => {
                    for i in 0..lanes {
                        lane.vars[(var + i) as usize] = lane.lane(value, i);
                        lane.written[(var + i) as usize] = true;
                    }
                }
                &Op::Loop { var, extent, end } => {
                    lane.set(var, 0);
                    if lane.get(extent) as i64 <= 0 {
                        pc = end as usize;
                        continue;
                    }
                }
                &Op::EndLoop { var, extent, body } => {
                    let next = lane.get(var) as i64 + 1;
                    if next < lane.get(extent) as i64 {
                        lane.set(var, next as u64);
                        pc = body as usize;
                        continue;
                    }
                }
                &Op::Thread { var, extent, end } => {
                    let (begin, stop) = lane.slice;
                    let (want, have) = (lane.get(extent) as i64, self.dims.thread_extent);
                    if want != have {
                        return Err(fault(
                            pc,
                            format!("the launch has a thread axis of {have}, the kernel one of {want}"),
                        ));
                    }
                    if begin >= stop {
                        pc = end as usize;
                        continue;
                    }
                    lane.iterate(var, begin);
                }
                &Op::EndThread { var, body } => {
                    let next = lane.get(var) as i64 + 1;
                    if next < lane.slice.1 {
                        lane.iterate(var, next);
                        pc = body as usize;
                        continue;
                    }
                    (lane.agent, lane.local) = (0, 0);
                }
                Op::Wide(w) => {
                    let [a, b, c] = w.src;
                    for i in 0..w.lanes {
                        let raw = w.f.call(lane.lane(a, i), lane.lane(b, i), lane.lane(c, i));
                        lane.set(w.dst + i, raw);
                    }
                }
                Op::Guard(g) => g.check(lane).map_err(|m| fault(pc, lane.locate(m)))?,
                &Op::Bitcast { dst, src, lanes, to, from } => {
                    let mask = u64::MAX >> (64 - from.bits().max(1));
                    for i in 0..lanes {
                        lane.set(dst + i, alu::extend(lane.lane(src, i) & mask, to));
                    }
                }
                &Op::Words { dst, src, lanes } => {
                    for i in 0..lanes {
                        let byte = |j: u32| (lane.get(src + 4 * i + j) & 0xff) << (8 * j);
                        let word = (0..4).map(byte).sum();
                        lane.set(dst + i, word);
                    }
                }
                &Op::Copy { dst, src } => lane.set(dst, lane.get(src)),
                Op::Stack(dst, srcs) => {
                    for (i, &s) in srcs.iter().enumerate() {
                        lane.set(dst + i as u32, lane.get(s));
                    }
                }
                &Op::Variable { dst, n, dtype } => {
                    let Some(&value) = self.variables.get(n as usize) else {
                        return Err(fault(pc, format!("the launch has no variable {n}")));
                    };
                    let raw = alu::extend(value as u64, dtype);
                    if raw as i64 != value {
                        return Err(fault(pc, format!("{value} does not fit {dtype}")));
                    }
                    lane.set(dst, raw);
                }
                &Op::Special { dst, id, extent } => {
                    let (row, dim) = match id {
                        Hardware::Global(dim) => (0, dim as usize),
                        Hardware::Local(dim) => (1, dim as usize),
                    };
                    let (want, have) =
                        (lane.get(extent) as i64, [self.dims.global, self.dims.local][row][dim]);
                    if want != have as i64 {
                        return Err(fault(pc, format!("the launch has {have} of {id}, the kernel {want}")));
                    }
                    lane.set(dst, lane.ids[row][dim] as u64);
                }
                Op::Load(access) => self.load(lane, access).map_err(|m| fault(pc, lane.locate(m)))?,
                Op::Store(access) => self.store(lane, access).map_err(|m| fault(pc, lane.locate(m)))?,
                Op::Matrix(matrix) if matrix.lanes() == 1 => matrix.run(&mut [&mut lane.registers]),
                Op::Matrix(_) | Op::LaneShuffle { .. } | Op::LoadMatrix(_) => {
                    lane.pc = pc;
                    return Ok(Stop::Warp);
                }
                Op::CopyAsync(copy) => {
                    let is_copied = copy.gate.is_none_or(|g| lane.lane(g, 0) != 0);
                    let from = is_copied.then(|| lane.get(copy.from_idx) as i64);
                    let (to, who) = (lane.get(copy.to_idx) as i64, (lane.local, lane.agent));
                    lane.copies
                        .start(copy, (to, from), who, &mut self.buffers, &mut self.locals)
                        .map_err(|m| fault(pc, lane.locate(m)))?;
                }
                Op::Commit => lane.copies.commit(),
                &Op::Wait(n) => {
                    let done = lane.copies.wait(n as usize, lane.local, &mut self.locals);
                    done.map_err(|m| fault(pc, lane.locate(m)))?;
                }
                Op::Barrier => {
                    lane.pc = pc + 1;
                    return Ok(Stop::Barrier);
                }
            }
            pc += 1;
        }
        lane.pc = pc;
        Ok(Stop::Done)
    }

    fn load(&mut self, lane: &mut Lane, access: &Access) -> Result<(), String> {
        for i in 0..access.lanes {
            let raw = match self.element(lane, access, i)? {
                None => access.alt.map_or(0, |alt| lane.lane(alt, i)),
                Some(idx) => match access.memory {
                    Memory::Buffer(n) => self.buffers.read(n, idx, lane.agent)?,
                    Memory::Local(n) => self.locals.read(n, idx, lane.local)?,
                    Memory::Var(n) => {
                        let place = self.var_element(n, idx)?;
                        if !lane.written[place] {
                            return Err(format!("element {idx} of v{n} is read before it is written"));
                        }
                        lane.vars[place]
                    }
                },
            };
            lane.set(access.value.slot + i, raw);
        }
        Ok(())
    }

    fn store(&mut self, lane: &mut Lane, access: &Access) -> Result<(), String> {
        for i in 0..access.lanes {
            let Some(idx) = self.element(lane, access, i)? else { continue };
            let raw = lane.lane(access.value, i);
            match access.memory {
                Memory::Buffer(n) => self.buffers.write(n, idx, raw, lane.agent)?,
                Memory::Local(n) => self.locals.write(n, idx, raw, lane.local)?,
                Memory::Var(n) => {
                    let place = self.var_element(n, idx)?;
                    lane.vars[place] = raw;
                    lane.written[place] = true;
                }
            }
        }
        Ok(())
    }

    /// The element that lane `i` of an access is to; `None` where the gate is false.
    fn element(&mut self, lane: &Lane, access: &Access, i: u32) -> Result<Option<i64>, String> {
        if access.gate.is_some_and(|g| lane.lane(g, i) == 0) {
            if let Some(site) = access.site
                && self.status == 0
            {
                self.status = site + 1;
            }
            return Ok(None);
        }
        let first = lane.lane(access.idx, i) as i64;
        if !access.consecutive {
            return Ok(Some(first));
        }
        let base = match access.memory {
            Memory::Buffer(n) => self.buffers.address(n),
            _ => 0,
        };
        let at = (base as i64).wrapping_add(first.wrapping_mul(access.size as i64));
        if self.aligned && access.lanes > 1 && at % (access.size * access.lanes) as i64 != 0 {
            let bytes = access.size * access.lanes;
            return Err(format!("{bytes} bytes at index {first} of {} are not aligned", access.memory));
        }
        Ok(Some(match access.rows {
            None => first.wrapping_add(i as i64),
            Some((lanes, stride)) => {
                let row = (i / lanes) as i64;
                first.wrapping_add(row.wrapping_mul(stride)).wrapping_add((i % lanes) as i64)
            }
        }))
    }

    fn var_element(&self, var: u32, idx: i64) -> Result<usize, String> {
        let (first, len) = self.program.vars[var as usize];
        if idx as u64 >= len as u64 {
            return Err(format!("index {idx} is outside v{var}, which has {len} elements"));
        }
        Ok(first as usize + idx as usize)
    }
}

impl Guard {
    /// Whether the machine instruction is defined on its operands.
    fn check(&self, lane: &Lane) -> Result<(), String> {
        for i in 0..self.lanes {
            let (a, b) = (lane.lane(self.a, i), lane.lane(self.b, i));
            let (x, y) = (alu::scalar(a, self.dtype).as_i128(), alu::scalar(b, self.dtype).as_i128());
            match self.op {
                Alu::Tdiv if y == 0 => return Err(format!("{x} is divided by zero")),
                Alu::Tdiv if y == -1 && self.dtype.int_range().is_some_and(|(least, _)| x == least) => {
                    return Err(format!("{x} / -1 does not fit {}", self.dtype));
                }
                Alu::Shl | Alu::Shr if !(0..self.dtype.bits() as i128).contains(&y) => {
                    return Err(format!("{x} of type {} is shifted by {y}", self.dtype));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Lane {
    fn take_place(&mut self, block: u64, place: [u32; 3], lane: u32, local: [u64; 3]) {
        self.restart();
        self.ids = [place, place_of(lane as u64, local)];
        self.local = lane;
        let size: u64 = local.iter().product();
        self.agent = (block * size + lane as u64 + 1) as u32;
    }
    /// Come to an iteration of the thread axis.
    fn iterate(&mut self, var: u32, i: i64) {
        self.set(var, i as u64);
        self.agent = i as u32 + 1;
        self.local = self.agent;
    }
    /// A message with the lane that it is about.
    fn locate(&self, message: String) -> String {
        match (self.ids, self.agent) {
            (ids, _) if ids != [[0; 3]; 2] => format!("{message} (block {:?}, lane {:?})", ids[0], ids[1]),
            (_, 0) => message,
            (_, agent) => format!("{message} (lane or thread iteration {})", agent - 1),
        }
    }
}

/// Coordinates of the n-th of a box, the first fastest.
fn place_of(n: u64, dims: [u64; 3]) -> [u32; 3] {
    let (x, y) = (dims[0].max(1), dims[1].max(1));
    [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
}

/// `0..extent` cut at random into at most four parts, in random order.
fn slices(extent: i64, random: &mut Random) -> Vec<(i64, i64)> {
    if extent <= 0 {
        return vec![];
    }
    let mut cuts = vec![0, extent];
    for _ in 0..random.below(4) {
        cuts.push(random.below(extent as u64 + 1) as i64);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut parts: Vec<(i64, i64)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
    random.shuffle(&mut parts);
    parts
}
