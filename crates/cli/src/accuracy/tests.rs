//! The bounds that `frit accuracy` measures by, at fewer arguments; 8 and 16-bit types at all of theirs.

use super::measure::{self, Points, Row};
use super::{functions, reductions};
use frit::DType;

fn broken(wanted: impl Fn(&str, DType) -> bool) -> Vec<Row> {
    let mut broken = vec![];
    let each = |row: &Row| {
        if !row.holds() {
            broken.push(row.clone());
        }
    };
    measure::run("CPU", Points::Sampled(4), wanted, each).expect("every row is computed");
    broken
}

fn is_reduction(name: &str) -> bool {
    reductions::REDUCTIONS.iter().any(|r| r.name == name)
}

#[test]
fn functions_keep_their_bounds_in_float32_and_float64() {
    let rows = broken(|name, d| !is_reduction(name) && d.size() >= 4);
    assert!(rows.is_empty(), "{rows:#?}");
}

#[test]
fn small_floats_are_rounded_once_at_every_argument() {
    let rows = broken(|name, d| !is_reduction(name) && d.size() < 4);
    assert!(rows.is_empty(), "{rows:#?}");
}

#[test]
fn long_reductions_keep_to_what_their_accumulator_predicts() {
    let rows = broken(|name, _| is_reduction(name));
    assert!(rows.is_empty(), "{rows:#?}");
}

#[test]
fn what_must_be_within_one_unit_is() {
    let one = "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh erf sqrt rsqrt pow \
               sigmoid";
    for name in one.split_whitespace() {
        let f = functions::FUNCTIONS
            .iter()
            .find(|f| f.name == name)
            .unwrap_or_else(|| panic!("{name} has no bound"));
        assert!(f.single <= 1.0, "{name}: {}", f.single);
    }
}
