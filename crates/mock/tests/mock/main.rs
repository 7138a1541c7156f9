//! The stand-in driver, called as frit calls it.

mod driver;
mod failures;
mod faults;
mod forms;
#[cfg(target_os = "linux")]
mod library;
mod queues;
mod speed;
