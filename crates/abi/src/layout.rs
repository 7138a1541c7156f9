//! Where the elements of a tile lie: which register of which lane has one, or which place in memory.
//!
//! A coordinate is a number of mixed radix, its lowest digit first, and a [`Layout`] says of each digit what it counts, and by
//! how many: registers, lanes, or elements of memory. Rows longer than what is in them are a digit that counts by more than
//! there are below it; boxes are the highest digit of a column; a [`Swizzle`] exchanges the pieces of rows.
//!
//! ```text
//! 0: 8 lane*4, 2 register*2; 1: 2 register, 4 lane          results of `mma.sync`, 16 x 8
//! 0: 32 place*33; 1: 32 place                               32 x 32 in memory, rows padded by one
//! 0: 128 place*64; 1: 64 place; swizzle 3 from 6 to 3       rows of 64 halves, pieces of 8 exchanged by the row's number
//! 0: 128 place*64; 1: 64 place, 2 place*8192                128 x 128 in two boxes of 64 columns
//! ```
//!
//! What follows from it is asked of it: [`Layout::run`] (contiguity), [`Layout::rounds`] (bank conflicts),
//! [`Layout::registers_in`] (whether one operand's home is another's), [`Layout::distances`] (how lanes reduce along a coordinate).

use std::fmt;

/// What a digit counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unit {
    /// Registers of a lane.
    Register,
    /// Lanes of a warp.
    Lane,
    /// Elements of memory.
    Place,
}

/// A digit of a coordinate. Those of one coordinate stand in a layout with the lowest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Digit {
    /// The number of the coordinate.
    pub of: usize,
    /// Values that it takes.
    pub radix: i64,
    /// What it counts.
    pub unit: Unit,
    /// By how many.
    pub weight: i64,
}

impl Digit {
    /// A digit of coordinate `of`.
    pub const fn new(of: usize, radix: i64, unit: Unit, weight: i64) -> Digit {
        Digit { of, radix, unit, weight }
    }
}

/// Bits of a place are changed by others: the `bits` from bit `to` by those from bit `from`, with exclusive or.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Swizzle {
    /// How many bits.
    pub bits: u32,
    /// The lowest that changes them.
    pub from: u32,
    /// The lowest that is changed; what lies below it stays together.
    pub to: u32,
}

impl Swizzle {
    /// Where a place goes.
    pub const fn apply(&self, place: i64) -> i64 {
        place ^ ((place >> self.from & ((1 << self.bits) - 1)) << self.to)
    }
}

/// Memory in banks, each of which serves one word at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Banks {
    /// How many there are.
    pub count: i64,
    /// Bytes of a word.
    pub word: i64,
}

/// Where the elements of a tile lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    digits: Vec<Digit>,
    swizzle: Option<Swizzle>,
}

impl Layout {
    /// Of these digits.
    pub fn new(digits: impl Into<Vec<Digit>>) -> Layout {
        Layout { digits: digits.into(), swizzle: None }
    }
    /// In memory, with so many elements from one to the next along each of the extents.
    pub fn strided(extents: &[i64], strides: &[i64]) -> Layout {
        let digit = |(of, (radix, weight))| Digit::new(of, radix, Unit::Place, weight);
        Layout::new(
            extents.iter().copied().zip(strides.iter().copied()).enumerate().map(digit).collect::<Vec<_>>(),
        )
    }
    /// In memory, row after row.
    pub fn dense(extents: &[i64]) -> Layout {
        let mut strides: Vec<i64> =
            extents.iter().rev().scan(1, |size, e| Some(std::mem::replace(size, *size * e))).collect();
        strides.reverse();
        Layout::strided(extents, &strides)
    }
    /// The same with pieces exchanged.
    pub fn swizzled(self, swizzle: Swizzle) -> Layout {
        Layout { swizzle: Some(swizzle), ..self }
    }
    /// So many of them, one after the other along a coordinate, each in registers of its own.
    pub fn repeated(mut self, of: usize, count: i64) -> Layout {
        let weight = self.size(Unit::Register);
        self.digits.push(Digit::new(of, count, Unit::Register, weight));
        self
    }
    /// The same with a coordinate under another number.
    pub fn renamed(mut self, from: usize, to: usize) -> Layout {
        self.digits.iter_mut().filter(|d| d.of == from).for_each(|d| d.of = to);
        self
    }

    /// Its digits.
    pub fn digits(&self) -> &[Digit] {
        &self.digits
    }
    /// How pieces are exchanged.
    pub fn swizzle(&self) -> Option<Swizzle> {
        self.swizzle
    }
    /// The digits of a coordinate, each with what it counts by in that coordinate.
    pub fn of(&self, coordinate: usize) -> impl Iterator<Item = (&Digit, i64)> {
        let own = self.digits.iter().filter(move |d| d.of == coordinate);
        own.scan(1, |step, d| Some((d, std::mem::replace(step, *step * d.radix))))
    }
    /// Whether the lowest digits of a coordinate are these: what they count, and by how many.
    pub fn begins(&self, coordinate: usize, digits: &[(i64, Unit, i64)]) -> bool {
        let own = self.of(coordinate).map(|(d, _)| (d.radix, d.unit, d.weight)).filter(|d| d.0 > 1);
        let given = digits.iter().copied().filter(|d| d.0 > 1);
        own.zip(given.clone()).filter(|(x, y)| x == y).count() == given.count()
    }
    /// Registers, lanes or elements of memory that it is spread over.
    pub fn size(&self, unit: Unit) -> i64 {
        let own = self.digits.iter().filter(|d| d.unit == unit);
        1 + own.map(|d| (d.radix - 1) * d.weight).sum::<i64>()
    }

    /// The register, lane or place of an element. The highest digit of a coordinate counts on beyond its radix.
    pub fn place(&self, at: &[i64], unit: Unit) -> i64 {
        let mut sum = 0;
        for (of, x) in at.iter().enumerate() {
            let mut digits = self.of(of).peekable();
            while let Some((d, step)) = digits.next() {
                let higher = x.div_euclid(step);
                let digit = if digits.peek().is_some() { higher % d.radix } else { higher };
                sum += if d.unit == unit { digit * d.weight } else { 0 };
            }
        }
        self.swizzle.filter(|_| unit == Unit::Place).map_or(sum, |s| s.apply(sum))
    }
    /// The coordinates of what a register of a lane has.
    pub fn coordinates<const N: usize>(&self, register: i64, lane: i64) -> [i64; N] {
        std::array::from_fn(|of| {
            let value = |(d, step): (&Digit, i64)| match d.unit {
                Unit::Register => register / d.weight % d.radix * step,
                Unit::Lane => lane / d.weight % d.radix * step,
                Unit::Place => 0,
            };
            self.of(of).map(value).sum()
        })
    }

    /// How many neighbours along a coordinate lie side by side in memory, and in whole vectors of so many.
    pub fn run(&self, of: usize) -> i64 {
        let is_next = |(d, step): &(&Digit, i64)| d.unit == Unit::Place && d.weight == *step;
        let run = self.of(of).take_while(is_next).map(|(d, _)| d.radix).product::<i64>();
        let others = self
            .digits
            .iter()
            .filter(|d| d.radix > 1 && d.unit == Unit::Place && (d.of != of || d.weight >= run));
        let whole = self.swizzle.map_or(run, |s| run.min(1 << s.to.min(s.from)));
        let fits = |n: &i64| whole % n == 0 && others.clone().all(|d| d.weight % n == 0);
        (1..=whole).rev().find(fits).unwrap_or(1)
    }
    /// How often a warp goes to memory for `wide` neighbours in each of these lanes, of so many bytes each: once for every word
    /// that a bank has for them.
    pub fn rounds(&self, lanes: &[Vec<i64>], wide: i64, bytes: i64, banks: Banks) -> usize {
        let mut words: Vec<Vec<i64>> = vec![vec![]; banks.count as usize];
        for at in lanes {
            let element = self.place(at, Unit::Place);
            let [first, last] =
                [element * bytes, (element + wide) * bytes - 1].map(|b| b.div_euclid(banks.word));
            for word in first..=last {
                let bank = &mut words[word.rem_euclid(banks.count) as usize];
                if !bank.contains(&word) {
                    bank.push(word);
                }
            }
        }
        words.iter().map(Vec::len).max().unwrap_or(0)
    }
    /// How far apart the lanes are that have parts of one row along a coordinate: a reduction exchanges with each in turn. (What one
    /// lane has of it lies in registers.)
    pub fn distances(&self, of: usize) -> Vec<i64> {
        let own = self.of(of).filter(|(d, _)| d.unit == Unit::Lane);
        let powers = |d: &Digit| {
            let (radix, weight) = (d.radix, d.weight);
            std::iter::successors(Some(1), |n| Some(n * 2))
                .take_while(move |n| *n < radix)
                .map(move |n| n * weight)
        };
        own.flat_map(|(d, _)| powers(d)).collect()
    }
    /// The register of `other` that has what each register of this one has, in every lane; where there are such.
    pub fn registers_in(&self, other: &Layout) -> Option<Vec<i64>> {
        let lanes = self.size(Unit::Lane);
        let of = |register: i64| {
            let to = |lane: i64| {
                let at: [i64; 3] = self.coordinates(register, lane);
                let place = [Unit::Register, Unit::Lane].map(|unit| other.place(&at, unit));
                (place[1] == lane).then_some(place[0])
            };
            let first = to(0)?;
            ((1..lanes).all(|lane| to(lane) == Some(first)) && first < other.size(Unit::Register))
                .then_some(first)
        };
        (0..self.size(Unit::Register)).map(of).collect()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for d in &self.digits {
            match before.replace(d.of) {
                Some(of) if of == d.of => write!(f, ", ")?,
                Some(_) => write!(f, "; {}: ", d.of)?,
                None => write!(f, "{}: ", d.of)?,
            }
            let unit = match d.unit {
                Unit::Register => "register",
                Unit::Lane => "lane",
                Unit::Place => "place",
            };
            write!(f, "{} {unit}", d.radix)?;
            if d.weight != 1 {
                write!(f, "*{}", d.weight)?;
            }
        }
        self.swizzle.map_or(Ok(()), |s| write!(f, "; swizzle {} from {} to {}", s.bits, s.from, s.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const BANKS: Banks = Banks { count: 32, word: 4 };
    /// Rows of 64 halves whose pieces of 16 bytes are exchanged.
    fn swizzled(rows: i64) -> Layout {
        Layout::dense(&[rows, 64]).swizzled(Swizzle { bits: 3, from: 6, to: 3 })
    }
    fn boxes() -> Layout {
        let place = |of, radix, weight| Digit::new(of, radix, Unit::Place, weight);
        Layout::new([place(0, 128, 64), place(1, 64, 1), place(1, 2, 64 * 128)])
    }
    fn all(rows: i64, columns: i64) -> impl Iterator<Item = [i64; 2]> {
        (0..rows).flat_map(move |r| (0..columns).map(move |c| [r, c]))
    }

    #[test]
    fn every_element_has_a_place_of_its_own() {
        let padded = Layout::strided(&[32, 32], &[33, 1]);
        for (layout, rows, columns) in
            [(Layout::dense(&[8, 64]), 8, 64), (padded, 32, 32), (swizzled(16), 16, 64), (boxes(), 128, 128)]
        {
            let places: HashSet<i64> = all(rows, columns).map(|at| layout.place(&at, Unit::Place)).collect();
            assert_eq!(places.len() as i64, rows * columns, "{layout}");
            assert!(places.iter().all(|p| (0..layout.size(Unit::Place)).contains(p)), "{layout}");
        }
    }

    #[test]
    fn neighbours_that_are_contiguous_are() {
        for (layout, sizes, runs) in [
            (Layout::dense(&[8, 64]), [8, 64], [1, 64]),
            (Layout::strided(&[32, 32], &[33, 1]), [32, 32], [1, 1]),
            (Layout::strided(&[32, 32], &[40, 1]), [32, 32], [1, 8]),
            (Layout::strided(&[32, 32], &[1, 36]), [32, 32], [4, 1]),
            (swizzled(16), [16, 64], [1, 8]),
            (boxes(), [128, 128], [1, 64]),
        ] {
            for d in 0..2 {
                assert_eq!(layout.run(d), runs[d], "{layout}");
                // by enumeration: the vector begins where one may, and goes on step by step
                for at in all(sizes[0], sizes[1]).filter(|at| at[d] % runs[d] == 0) {
                    let place = |n: i64| {
                        let mut at = at;
                        at[d] += n;
                        layout.place(&at, Unit::Place)
                    };
                    assert_eq!(place(0) % runs[d], 0, "{layout}");
                    assert!((0..runs[d]).all(|n| place(n) == place(0) + n), "{layout}");
                }
            }
        }
    }

    #[test]
    fn rows_that_are_swizzled_or_padded_meet_in_no_bank() {
        // eight lanes read 16 bytes of eight rows, as matrices are loaded
        let rows = |column: i64| (0..8).map(|r| vec![r, column]).collect::<Vec<_>>();
        for column in (0..64).step_by(8) {
            assert_eq!(Layout::dense(&[8, 64]).rounds(&rows(column), 8, 2, BANKS), 8);
            assert_eq!(swizzled(8).rounds(&rows(column), 8, 2, BANKS), 1);
            assert_eq!(Layout::strided(&[8, 64], &[72, 1]).rounds(&rows(column), 8, 2, BANKS), 1);
        }
    }

    #[test]
    fn a_layout_prints_as_it_is_written() {
        assert_eq!(swizzled(128).to_string(), "0: 128 place*64; 1: 64 place; swizzle 3 from 6 to 3");
        assert_eq!(boxes().to_string(), "0: 128 place*64; 1: 64 place, 2 place*8192");
    }
}
