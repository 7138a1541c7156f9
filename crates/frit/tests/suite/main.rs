//! What frit promises, tested through `Tensor` from end to end.
//!
//! ```text
//! numerics     extremes, integers, conversions, promotion
//! goldens      every op against torch's values, forward and gradient, on every device, with random opts
//! evaluator    the same graphs by the evaluator
//! factors      linear algebra beyond the vectors
//! matrix       products that matrix units compute, on every device
//! precision    training with products in bfloat16
//! fusion       kernels, bytes and work counted
//! caches       the second time nothing is scheduled or compiled
//! depth        a layer costs the same at any depth
//! symbolic     lengths that are bound late
//! assignment   random writes against a plain model
//! programs     random programs against the evaluator
//! loops        steps described once, their gradients
//! derivatives  second derivatives against finite differences
//! threads      many at once
//! errors       messages word for word
//! cuda         what only a device with a driver does
//! faults       caches and files when things go wrong
//! memory       loops that would fail if anything were kept
//! recording    what recordings cost while there is none
//! rules        every table of rules has its test
//! tour         docs/tour.md shows what happens
//! tidy         the repository keeps its own promises
//! ```

mod assignment;
mod caches;
mod cuda;
mod depth;
mod derivatives;
mod errors;
mod evaluator;
mod factors;
mod faults;
mod fusion;
mod goldens;
mod imports;
mod loops;
mod matrix;
mod memory;
mod numerics;
mod ops;
mod precision;
mod programs;
mod recording;
mod rules;
mod support;
mod symbolic;
mod threads;
mod tidy;
mod tour;
