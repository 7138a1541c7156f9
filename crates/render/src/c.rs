//! Linear program -> C.
