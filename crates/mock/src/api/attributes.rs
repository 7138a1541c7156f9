//! The numbers of a device: an H200's.

use crate::state::state;

/// By the driver's number for each.
const H200: &[(i32, i32)] = &[
    (1, 1024),       // lanes of a block
    (2, 1024),       // ... along x
    (3, 1024),       // ... along y
    (4, 64),         // ... along z
    (5, i32::MAX),   // blocks along x
    (6, 65_535),     // ... along y
    (7, 65_535),     // ... along z
    (8, 48 << 10),   // shared bytes of a block that does not ask for more
    (10, 32),        // lanes of a warp
    (12, 65_536),    // registers of a block
    (13, 1_980_000), // kHz
    (16, 132),       // processors
    (36, 3_201_000), // kHz of its memory
    (37, 6144),      // bits of its bus
    (38, 60 << 20),  // bytes of its L2 cache
    (39, 2048),      // lanes of a processor
    (41, 1),         // one address space with the host
    (75, 9),         // compute capability
    (76, 0),
    (81, 228 << 10),    // shared bytes of a processor
    (82, 65_536),       // registers of a processor
    (97, SHARED_BYTES), // shared bytes of a block that asks
    (106, 32),          // blocks of a processor
];

/// The most shared memory that a block can ask for.
pub const SHARED_BYTES: i32 = 227 << 10;

/// The number of the shared cache's size.
const L2_BYTES: i32 = 38;

/// One of them.
pub fn get(attribute: i32) -> Option<i32> {
    if let Some(bytes) = state().settings.l2.filter(|_| attribute == L2_BYTES) {
        return Some(bytes);
    }
    H200.iter().find(|a| a.0 == attribute).map(|a| a.1)
}
