//! Sizes and strides that another library says its memory has, believed only where they can be.

/// Most dims that are believed: a number beyond is a struct that was read wrongly.
pub const MOST_DIMS: usize = 64;

/// Where the elements of an array lie.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    pub dims: Vec<usize>,
    /// In elements, where they do not follow each other in row-major order.
    pub strides: Option<Vec<isize>>,
    /// Bytes of all elements, one after the other.
    pub bytes: usize,
    /// Bytes before and behind the first element that belong to the array.
    pub before: usize,
    pub behind: usize,
}

/// The layout of an array of these sizes and strides (none: row-major) with elements of `size` bytes whose first one is
/// at `address`; what does not fit the address space is an error.
pub fn layout(shape: &[i64], strides: Option<&[i64]>, size: usize, address: u64) -> Result<Layout, String> {
    if shape.len() > MOST_DIMS {
        return Err(format!("{} dims", shape.len()));
    }
    let dims = shape.iter().map(|&d| usize::try_from(d)).collect::<Result<Vec<_>, _>>();
    let dims = dims.map_err(|_| format!("sizes {shape:?}"))?;
    let too_large = || format!("an array of sizes {shape:?} is larger than the address space");
    // an array without elements has no memory, whatever its other sizes
    if dims.contains(&0) {
        return Ok(Layout { dims, strides: None, bytes: 0, before: 0, behind: 0 });
    }
    let bytes = dims.iter().try_fold(size, |n, &d| n.checked_mul(d)).filter(|n| isize::try_from(*n).is_ok());
    let bytes = bytes.ok_or_else(too_large)?;
    let strides = match strides {
        Some(s) if s.len() == dims.len() => not_row_major(&dims, s),
        Some(s) => return Err(format!("{} strides for {} dims", s.len(), dims.len())),
        None => None,
    };
    let (before, behind) = match &strides {
        None => (0, bytes),
        Some(s) => reach(&dims, s, size).ok_or_else(|| format!("strides {s:?} leave the address space"))?,
    };
    let fits =
        address.checked_sub(before as u64).is_some_and(|_| address.checked_add(behind as u64).is_some());
    if bytes > 0 && (address == 0 || !fits) {
        return Err(format!("no memory for {bytes} bytes at {address:#x}"));
    }
    let strides = strides.map(|s| s.into_iter().map(|s| s as isize).collect());
    Ok(Layout { dims, strides, bytes, before, behind })
}

/// The strides, unless they are those of a row-major array.
fn not_row_major(dims: &[usize], strides: &[i64]) -> Option<Vec<i64>> {
    let mut step = 1u64;
    let mut plain = true;
    for (&d, &s) in dims.iter().zip(strides).rev() {
        plain &= d <= 1 || u64::try_from(s) == Ok(step);
        step = step.saturating_mul(d as u64);
    }
    (!plain).then(|| strides.to_vec())
}

/// Bytes before and behind the first element up to the outermost ones.
fn reach(dims: &[usize], strides: &[i64], size: usize) -> Option<(usize, usize)> {
    let (mut before, mut behind) = (0i64, 0i64);
    for (&d, &s) in dims.iter().zip(strides) {
        let far = i64::try_from(d - 1).ok()?.checked_mul(s)?.checked_mul(i64::try_from(size).ok()?)?;
        let side = if far < 0 { &mut before } else { &mut behind };
        *side = side.checked_add(far.checked_abs()?)?;
    }
    let behind = behind.checked_add(i64::try_from(size).ok()?)?;
    before.checked_add(behind)?;
    Some((usize::try_from(before).ok()?, usize::try_from(behind).ok()?))
}
