//! Where a rule is written.
//!
//! Inside a macro `line!()` is the line of the whole table. An expression that the macro passes on keeps its own place, though,
//! and a `deref` that the compiler puts around it for its type is called from there. So the op that a pattern begins with is
//! taken as an expression: a name that stands for a [`Here`].

use std::panic::Location;

/// The op that a rule's pattern begins with, as an expression that knows where it is written.
pub struct Here;
impl std::ops::Deref for Here {
    type Target = Location<'static>;
    #[track_caller]
    fn deref(&self) -> &Location<'static> {
        Location::caller()
    }
}
/// `(Add|Mul)` is an expression, too.
impl std::ops::BitOr for &'static Here {
    type Output = &'static Here;
    fn bitor(self, _: &'static Here) -> &'static Here {
        self
    }
}
/// The line of what is given; a [`Here`] becomes its place on the way.
pub fn line_of(at: &Location<'static>) -> u32 {
    at.line()
}
