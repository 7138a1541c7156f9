//! `frit accuracy`: how exact every function and long reduction is on a device, and whether the bounds hold.

mod measure;
mod functions;
mod reductions;
mod sample;
mod twofold;
#[cfg(test)]
mod tests;

use frit::DType;
use measure::{Points, Row};

/// The help text.
pub const HELP: &str = "\
frit accuracy: measure every elementary function in every float type, and long reductions, against references with
more digits; greatest and mean error in units in the last place, at which argument, the bound, whether it holds

usage: frit accuracy [options]

  --device NAME    the device (the default one without)
  --op NAME        only what has NAME in its name; several are allowed
  --dtype NAME     only this type (float32, float64, float16, bfloat16, float8_e4m3, float8_e5m2)
  --points N       arguments of each exponent of float32 (40); 8 and 16-bit types are always measured at all
  --full           every argument of float32
  --json           a JSON line for each row

Exits with an error where a bound is broken.
";

struct Options {
    device: Option<String>,
    ops: Vec<String>,
    dtype: Option<DType>,
    points: Points,
    json: bool,
}

fn parse(words: &[&str]) -> Result<Options, String> {
    let mut o = Options { device: None, ops: vec![], dtype: None, points: Points::Sampled(40), json: false };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut value =
            || words.next().copied().ok_or(format!("{word} needs a value; see frit accuracy --help"));
        match word {
            "--device" => o.device = Some(value()?.to_owned()),
            "--op" => o.ops.push(value()?.to_owned()),
            "--dtype" => {
                let name = value()?;
                let known = measure::DTYPES.into_iter().find(|d| d.name() == name);
                o.dtype =
                    Some(known.ok_or(format!("--dtype {name}: not a float type; see frit accuracy --help"))?);
            }
            "--points" => {
                let n = value()?;
                o.points = Points::Sampled(n.parse().map_err(|_| format!("--points {n}: not a number"))?);
            }
            "--full" => o.points = Points::Full,
            "--json" => o.json = true,
            other => return Err(format!("frit accuracy has no option '{other}'; see frit accuracy --help")),
        }
    }
    Ok(o)
}

/// Measure and print; an error where a bound is broken.
pub fn run(words: &[&str]) -> Result<(), String> {
    let options = parse(words)?;
    let device = match options.device {
        Some(d) => d,
        None => frit::engine::default_device().map_err(|e| e.to_string())?.to_string(),
    };
    if !options.json {
        println!(
            "{:20} {:13} {:>10} {:>10} {:>10} {:>9}  at",
            "on ".to_owned() + &device,
            "type",
            "points",
            "max",
            "mean",
            "bound"
        );
    }
    let wanted = |name: &str, dtype: DType| {
        options.dtype.is_none_or(|d| d == dtype)
            && (options.ops.is_empty() || options.ops.iter().any(|o| name.contains(o.as_str())))
    };
    let (mut rows, mut broken) = (0, 0);
    let result = measure::run(&device, options.points, wanted, |row| {
        rows += 1;
        broken += usize::from(!row.holds());
        println!("{}", if options.json { json(row) } else { line(row) });
    });
    result.map_err(|e| e.to_string())?;
    match (rows, broken) {
        (0, _) => Err("nothing of that name and type is measured".into()),
        (_, 0) => Ok(()),
        _ => Err(format!("{broken} of {rows} bounds are broken")),
    }
}

fn arguments(row: &Row) -> String {
    row.at.iter().map(|x| format!("{x:e}")).collect::<Vec<_>>().join(", ")
}

fn line(row: &Row) -> String {
    let verdict = if row.holds() { "" } else { "  BROKEN" };
    let bound =
        if row.unit == "ulp" { format!("{}", row.bound) } else { format!("{} {}", row.bound, row.unit) };
    format!(
        "{:20} {:13} {:>10} {:>10.4} {:>10.4} {:>9}  {}{verdict}",
        row.name,
        row.dtype.name(),
        row.points,
        row.max,
        row.mean,
        bound,
        arguments(row)
    )
}

fn json(row: &Row) -> String {
    // JSON has no infinity
    let number = |x: f64| if x.is_finite() { format!("{x}") } else { "null".into() };
    let at: Vec<String> = row.at.iter().map(|&x| number(x)).collect();
    format!(
        "{{\"name\":\"{}\",\"dtype\":\"{}\",\"points\":{},\"max\":{},\"mean\":{},\"at\":[{}],\"bound\":{},\"unit\":\"{}\",\"holds\":{}}}",
        row.name,
        row.dtype,
        row.points,
        number(row.max),
        number(row.mean),
        at.join(","),
        number(row.bound),
        row.unit,
        row.holds()
    )
}
