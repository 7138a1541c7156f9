//! The memory behind nodes: which bytes, which version of them, seen how.

pub(crate) mod bindings;
pub(crate) mod buffer;
pub(crate) mod file;
pub(crate) mod unconfirmed;
pub(crate) mod transfer;
pub(crate) mod view;

pub use bindings::{Bindings, eval_index};
pub use buffer::{Buffer, Versions};
pub use frit_runtime::Owner;
pub use transfer::{adopt, from_blob, from_bytes};
pub use unconfirmed::synchronize;
pub use view::{
    base_of, contiguous_base, element_count, refreshed, seen_as, settled, strip_stores, version_of, versions,
};
