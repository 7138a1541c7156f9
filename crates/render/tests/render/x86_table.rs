//! The table of x86 instructions as it is, with its own test, which the library is not built a second time for.

mod program {
    #[derive(Clone, Copy, Debug)]
    pub enum Size {
        X,
        Y,
        Z,
    }
}

#[allow(dead_code)]
#[path = "../../src/x86/table.rs"]
mod table;
