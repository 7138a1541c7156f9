//! Legal opts by chance: for tests, and as a start for search.

use crate::error::Error;
use crate::plan::Plan;
use crate::plan::opt::Opt;

/// At most `count` legal opts, one after the other, chosen by a seed.
pub fn random_opts(mut plan: Plan, seed: u64, count: usize) -> Result<Vec<Opt>, Error> {
    let (mut chosen, mut state) = (vec![], seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D1CE_4E5B);
    for _ in 0..count {
        let legal = plan.legal();
        if legal.is_empty() {
            break;
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // a matrix unit is one opt among hundreds, and should be seen more often than that
        let units: Vec<&Opt> = legal.iter().filter(|o| matches!(o, Opt::Matrix { .. })).collect();
        let of: Vec<&Opt> =
            if !units.is_empty() && state >> 60 & 3 == 0 { units } else { legal.iter().collect() };
        let opt = of[(state >> 33) as usize % of.len()].clone();
        plan.apply(&opt)?;
        chosen.push(opt);
    }
    Ok(chosen)
}
