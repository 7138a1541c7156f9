//! Group scalar accesses to neighbouring places into the vectors the target can move.

use crate::{Ctx, Error};
use frit_uop::UOp;

/// The pass.
pub fn coalesce(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    Ok(sink.clone())
}
