//! Prints what interning and rewriting cost here: `cargo run --release -p frit-uop --example intern`.

use frit_uop::bench::{intern_hit_ns, simplify_ns};

fn main() {
    let (one, two) = (intern_hit_ns(1), intern_hit_ns(2));
    println!("intern: {one:.1} ns a hit, two threads {two:.1} ({:.2} times the rate)", one / two);
    let (first, again) = simplify_ns();
    println!("simplify: {first:.0} ns a node the first time, {again:.0} again");
}
