//! Rows that make a kernel simple before opts are chosen.

pub mod tile_and_fuse;
pub mod online_softmax;
pub mod fuse_products;
pub mod ranges;
pub mod materialise;
pub mod distribute;
pub mod widen;
pub mod carry;
pub mod residues;
pub mod transpose_factor;
pub mod split_reduce;
pub mod owners;
pub mod digits;
