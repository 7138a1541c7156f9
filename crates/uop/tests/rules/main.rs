//! Tests of the rule notation, the drivers, and the symbolic algebra.

mod engine;
