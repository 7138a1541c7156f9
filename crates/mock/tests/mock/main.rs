//! The stand-in driver, called as frit calls it.

mod driver;
mod failures;
mod faults;
mod forms;
mod queues;
mod speed;
