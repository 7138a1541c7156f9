//! What things cost on a machine: the numbers that heuristics weigh against each other.
//!
//! Times are cycles of a core whose SMT sibling is busy, measured on the machines of BENCHMARKS.md unless a line says
//! otherwise. A number with a machine in it stands here and nowhere else.

/// A number with two decimals, so that tables can be compared and hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hundredths(u32);

impl Hundredths {
    /// The number.
    pub const fn get(self) -> f64 {
        self.0 as f64 / 100.0
    }
}

const fn of(hundredths: u32) -> Hundredths {
    Hundredths(hundredths)
}

/// The costs of one kind of machine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Costs {
    // ---- a core
    /// Instructions that begin in a cycle.
    pub issue_width: Hundredths,
    /// Vector multiply-adds (or multiplications) that begin in a cycle.
    pub fma_ports: Hundredths,
    /// Cycles until a multiply-add can use the result of another.
    pub fma_latency: Hundredths,
    /// Vector loads that begin in a cycle.
    pub load_ports: Hundredths,
    /// Whether an instruction takes one value in memory for all lanes.
    pub has_broadcast_operands: bool,
    /// Bytes of the smallest elements of which an instruction loads or stores some lanes of a vector; of smaller ones each lane
    /// that may be outside is a branch.
    pub masked_bytes: usize,
    /// Bytes within which a shuffle moves lanes in one instruction.
    pub shuffle_bytes: usize,
    /// Elements from one lane or row to the next that an address still reaches, for any vector.
    pub address_reach: i64,
    /// Steps of a dependent chain from which the out-of-order window does not see its end.
    pub window_steps: usize,
    /// Chains side by side that keep all units busy.
    pub busy_chains: usize,
    /// Results in flight that hide the latency of one another.
    pub results_in_flight: usize,
    /// Updates of vectors in a loop body that the front end still keeps up with; the same where no loop is left.
    pub body_updates: usize,
    /// See [`Costs::body_updates`].
    pub straight_updates: usize,

    // ---- memory
    /// Bytes of a cache line.
    pub line: usize,
    /// Bytes of a page: the hardware prefetcher does not go beyond.
    pub page: usize,
    /// Bytes apart from which lines fall into the same few sets of the first cache.
    pub set_conflict: usize,
    /// Bytes that the second-level cache brings in a cycle.
    pub l2_bytes_per_cycle: Hundredths,
    /// Bytes ahead that a stream is prefetched: what a core computes while memory answers.
    pub prefetch_bytes: usize,
    /// Cycles until memory answers: a loop that computes for longer than it loads is prefetched that far ahead.
    pub memory_latency: usize,
    /// Iterations ahead that interleaved stores are prefetched, and from how many streams of them on.
    pub prefetch_stores: usize,
    /// See [`Costs::prefetch_stores`].
    pub untracked_streams: usize,
    /// Steps of a loop beside which prefetching a line several times is cheap.
    pub busy_loop: usize,
    /// Rows of a block that are written in turn before their lines evict each other.
    pub interleaved_rows: usize,
    /// Bytes of a row of a block that is copied: long enough for the hardware prefetcher.
    pub block_row: usize,

    // ---- cycles of vector code
    /// An element that is packed or scattered lane by lane.
    pub gather_lane: Hundredths,
    /// A result that is transposed in registers.
    pub transpose_lane: Hundredths,
    /// A store of a part of a vector.
    pub partial_store: Hundredths,
    /// A load of a vector under a gate.
    pub masked_load: Hundredths,
    /// What a loop adds to each of its iterations.
    pub loop_overhead: Hundredths,
    /// A line that a step reads by itself, where its neighbours conflict and where they do not.
    pub conflicting_line: Hundredths,
    /// See [`Costs::conflicting_line`].
    pub near_line: Hundredths,
    /// A vector that is copied to a packed panel.
    pub packed_vector: Hundredths,
    /// A result vector that is loaded or stored once; and one for all lanes.
    pub result_vector: Hundredths,
    /// See [`Costs::result_vector`].
    pub result_scalar: Hundredths,
    /// A loop with masks against one without.
    pub masked_loop: Hundredths,

    // ---- elementwise code, where a vector access costs 1
    /// A lane of a load and of a store that goes by itself.
    pub load_lane: Hundredths,
    /// See [`Costs::load_lane`].
    pub store_lane: Hundredths,
    /// A load and a store of a vector that is transposed in registers; stores cost more, so that they stay contiguous.
    pub transposed_load: Hundredths,
    /// See [`Costs::transposed_load`].
    pub transposed_store: Hundredths,
    /// Each of the loads that a load of stride 2 to 4 becomes, with its shuffles.
    pub deinterleaved_load: Hundredths,
    /// A load from a packed copy, the copying included.
    pub staged_load: Hundredths,
    /// An operation.
    pub arithmetic: Hundredths,
    /// A vector of which some lanes are masked.
    pub masked_vector: Hundredths,
}

/// Cores with vectors of 64 bytes.
pub const AVX512: Costs = Costs {
    issue_width: of(300),
    fma_ports: of(200),
    fma_latency: of(400),
    load_ports: of(200),
    has_broadcast_operands: true,
    masked_bytes: 1,
    shuffle_bytes: 16,
    address_reach: 1 << 22,
    window_steps: 12,
    busy_chains: 4,
    results_in_flight: 8,
    body_updates: 112,
    straight_updates: 160,
    line: 64,
    page: 4096,
    set_conflict: 2048,
    l2_bytes_per_cycle: of(2400),
    prefetch_bytes: 2048,
    memory_latency: 500,
    prefetch_stores: 2,
    untracked_streams: 4,
    busy_loop: 64,
    interleaved_rows: 8,
    block_row: 256,
    gather_lane: of(140),
    transpose_lane: of(40),
    partial_store: of(250),
    masked_load: of(150),
    loop_overhead: of(50),
    conflicting_line: of(200),
    near_line: of(5),
    packed_vector: of(200),
    result_vector: of(150),
    result_scalar: of(50),
    masked_loop: of(103),
    load_lane: of(180),
    store_lane: of(250),
    transposed_load: of(500),
    transposed_store: of(550),
    deinterleaved_load: of(200),
    staged_load: of(120),
    arithmetic: of(50),
    masked_vector: of(115),
};

/// Cores with vectors of 32 bytes: a broadcast is an instruction of its own, and masks are of words.
pub const AVX2: Costs = Costs { has_broadcast_operands: false, masked_bytes: 4, ..AVX512 };

/// The baseline of x86-64, and what is assumed of machines that nothing is known of.
pub const SSE2: Costs = Costs { masked_bytes: usize::MAX, ..AVX2 };

impl Costs {
    /// Those of cores with vectors of so many bytes.
    pub const fn of_vectors(bytes: usize) -> &'static Costs {
        match bytes {
            64.. => &AVX512,
            32..64 => &AVX2,
            _ => &SSE2,
        }
    }
}
