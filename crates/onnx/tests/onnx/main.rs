//! ONNX models end to end.

mod build;
mod elements;
mod export;
mod goldens;
mod graphs;
mod hostile;
mod loops;
mod memory;
mod quantised;
mod sizes;
mod threads;
mod versions;
