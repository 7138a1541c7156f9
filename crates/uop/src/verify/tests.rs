use super::*;
use crate::text;

/// What is said of a kernel with one store of a load.
fn said(lines: &str) -> Result<(), String> {
    let kernel = text::parse(lines).map_err(|e| e.to_string())?;
    verify(&kernel).map_err(|e| e.to_string())
}
/// A kernel that reads `p` of 5 at an index over `%1` in 0..8 and `%2`, a variable `n` in 1..=5, with a gate.
fn reads(index: &str, gate: &str) -> Result<(), String> {
    let mut text = String::from(
        "%0 = Param:float32 {0 8}\n%1 = Range:index 8 {Global 0}\n%2 = Variable:index {n 1 5}\n\
         %3 = Param:float32 {1 5}\n%4 = Param:int64 {2 8}\n%5 = Index:int64 %4 %1\n%6 = Load:int64 %5\n\
         %7 = Cast:index %6\n%8 = Lt:bool %7 0\n%9 = Lt:bool %7 5\n%10 = Not:bool %8\n%11 = And:bool %9 %10\n\
         %12 = Param:bool {3 8}\n%13 = Index:bool %12 %1\n%14 = Load:bool %13\n",
    );
    let mut next = 15;
    let mut add = |line: &str, text: &mut String| {
        for part in line.split(';').filter(|p| !p.is_empty()) {
            text.push_str(&format!("%{next} = {part}\n"));
            next += 1;
        }
        next - 1
    };
    let i = add(index, &mut text);
    let last = match gate {
        "" => add(&format!("Index:float32 %3 %{i};Load:float32 %{}", i + 1), &mut text),
        g => {
            let g = add(g, &mut text);
            add(&format!("Index:float32 %3 %{i};Load:float32 %{} 0.0:float32 %{g}", g + 1), &mut text)
        }
    };
    let used = "Add:index %2 0;Index:float32 %0 %1";
    let at = add(used, &mut text);
    add(&format!("Store:void %{at} %{last};End:void %{} %1;Sink:void %{} {{k}}", at + 1, at + 2), &mut text);
    said(&text)
}

#[test]
fn an_index_is_inside_by_its_bounds() {
    for inside in ["Mod:index %1 5", "Idiv:index %1 2", "Min:index %1 4", "Add:index %2 -1", "Mul:index %1 0"]
    {
        assert_eq!(reads(inside, ""), Ok(()), "{inside}");
    }
    for outside in ["Mod:index %1 6", "Add:index %1 0", "Add:index %2 0", "Add:index %2 -2", "Mul:index %7 1"]
    {
        assert!(reads(outside, "").is_err_and(|e| e.contains("kernel k: Load")), "{outside}");
    }
}
#[test]
fn an_index_is_inside_where_its_gate_holds() {
    for (index, gate) in [
        ("Add:index %1 0", "Lt:bool %1 5"),
        ("Add:index %1 -3", "Lt:bool %1 3;Not:bool %16"),
        ("Add:index %1 %2;Add:index %15 -1", "Add:index %1 %2;Lt:bool %17 6"),
        ("Sub:index %2 %1;Add:index %15 -1", "Lt:bool %1 %2"),
        // in a loop of n steps the variable is below n, and n is at least 1
        (
            "Range:index %2 {Loop 1};Sub:index %2 %15;Add:index %16 -1;Reduce:index %17 %15 {Max};Mul:index %18 0",
            "Lt:bool %1 8",
        ),
        // from data, between its least and greatest value
        ("Add:index %7 0", "And:bool %11 true"),
        ("Mul:index %7 3;Idiv:index %15 3", "And:bool %11 true"),
        // a choice, each side where it is taken
        ("Add:index %1 -5;Where:index %9 %7 0;Lt:bool %1 5;Where:index %17 %1 %15", "Lt:bool %1 8"),
        ("Eq:bool %1 4;Where:index %15 %1 0", "Lt:bool %1 8"),
    ] {
        assert_eq!(reads(index, gate), Ok(()), "{index} where {gate}");
    }
    for (index, gate) in [
        ("Add:index %1 0", "Lt:bool %1 6"),
        ("Add:index %1 -3", "Lt:bool %1 3"),
        ("Add:index %1 0", "Lt:bool %1 5;Not:bool %16"),
        ("Add:index %7 0", "Lt:bool %7 5"),
        ("Add:index %7 0", "Or:bool %9 %10"),
        ("Add:index %1 0", "Lt:bool %1 5;Or:bool %16 %9"),
    ] {
        assert!(reads(index, gate).is_err(), "{index} where {gate}");
    }
}
/// A kernel over ranges `%0`, `%1`, … that reads `len` elements at an index with a gate, both given line by line.
fn gated(ranges: &[i64], len: i64, index: &[&str], gate: &[&str]) -> Result<(), String> {
    let mut lines: Vec<String> =
        ranges.iter().enumerate().map(|(i, r)| format!("Range:index {r} {{Reduce {i}}}")).collect();
    lines.extend(index.iter().chain(gate).map(|l| l.to_string()));
    let at = ranges.len() + index.len() - 1;
    let mut add = |line: String| {
        lines.push(line);
        lines.len() - 1
    };
    let (to, from) = (add("Param:float32 {0 1}".into()), add(format!("Param:float32 {{1 {len}}}")));
    let read = add(format!("Index:float32 %{from} %{at}"));
    let load = match gate {
        [] => add(format!("Load:float32 %{read}")),
        _ => add(format!("Load:float32 %{read} 0.0:float32 %{}", to - 1)),
    };
    let all: Vec<String> = (0..ranges.len()).map(|i| format!("%{i}")).collect();
    let sum = add(format!("Reduce:float32 %{load} {} {{Add}}", all.join(" ")));
    let place = add(format!("Index:float32 %{to} 0"));
    let store = add(format!("Store:void %{place} %{sum}"));
    add(format!("Sink:void %{store} {{k}}"));
    let text: String = lines.iter().enumerate().map(|(i, l)| format!("%{i} = {l}\n")).collect();
    said(&text)
}

#[test]
fn an_index_is_inside_by_division_with_remainder() {
    // digits of one number: x//48*24 + x%48, where the middle one, x//4%12, is below 6
    let parts = ["Idiv:index %0 48", "Mul:index %1 24", "Mod:index %0 48", "Add:index %2 %3"];
    let digit =
        |most: &str| ["Idiv:index %0 4".into(), "Mod:index %5 12".into(), format!("Lt:bool %6 {most}")];
    let read = |len, most| {
        let gate = digit(most);
        gated(&[96], len, &parts, &gate.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(read(48, "6"), Ok(()));
    assert!(read(47, "6").is_err());
    assert!(read(48, "7").is_err());
    // x + 3 where x%5 is below 2: x is at most 21
    let next = |len| gated(&[25], len, &["Add:index %0 3"], &["Mod:index %0 5", "Lt:bool %2 2"]);
    assert_eq!(next(25), Ok(()));
    assert!(next(24).is_err());
    // x + 6 where x//6 is even
    let even = ["Idiv:index %0 6", "Mod:index %2 2", "Lt:bool %3 1"];
    assert_eq!(gated(&[24], 24, &["Add:index %0 6"], &even), Ok(()));
    assert!(gated(&[24], 23, &["Add:index %0 6"], &even).is_err());
    // x + 8 where x//6 is even and x%6 below 4: x is at most 15
    let both = [
        "Idiv:index %0 6",
        "Mod:index %2 2",
        "Lt:bool %3 1",
        "Mod:index %0 6",
        "Lt:bool %5 4",
        "And:bool %4 %6",
    ];
    assert_eq!(gated(&[24], 24, &["Add:index %0 8"], &both), Ok(()));
    assert!(gated(&[24], 23, &["Add:index %0 8"], &both).is_err());
    // 9a + 3b + c + 4 where (a + b)%2*3 + c is below 2
    let index = ["Mul:index %0 9", "Mul:index %1 3", "Add:index %3 %4", "Add:index %5 %2", "Add:index %6 4"];
    let gate = ["Add:index %0 %1", "Mod:index %8 2", "Mul:index %9 3", "Add:index %10 %2", "Lt:bool %11 2"];
    assert_eq!(gated(&[2, 3, 3], 18, &index, &gate), Ok(()));
    assert!(gated(&[2, 3, 3], 17, &index, &gate).is_err());
    // 8a + 2b + c + 12 where a + (a + b)//3 is below 2
    let index = ["Mul:index %0 8", "Mul:index %1 2", "Add:index %3 %4", "Add:index %5 %2", "Add:index %6 12"];
    let gate = ["Add:index %0 %1", "Idiv:index %8 3", "Add:index %0 %9", "Lt:bool %10 2"];
    assert_eq!(gated(&[3, 4, 2], 24, &index, &gate), Ok(()));
    assert!(gated(&[3, 4, 2], 23, &index, &gate).is_err());
}
#[test]
fn a_loop_that_may_have_no_step_says_nothing_of_what_stands_before_it() {
    // a part of at most one element, from a place up to the end on: n in 0..=9, begin min(n, 5), size 1 where n < 5
    let reads = |index: &str, gate: &str| {
        let gate_at = index.split(';').count() + 10;
        let lines = format!(
            "Param:float32 {{0 8}};Range:index 8 {{Global 0}};Variable:index {{n 0 9}};Param:float32 {{1 5}};\
             Mul:index %2 -1;Add:index %4 5;Min:index %5 1;Max:index %6 0;Range:index %7 {{Reduce 1}};\
             Min:index %2 5;{index}{gate}"
        );
        let mut lines: Vec<String> = lines.split(';').map(String::from).collect();
        let at = gate_at - 1;
        lines.push(format!("Index:float32 %3 %{at}"));
        let load = match gate {
            "" => format!("Load:float32 %{}", lines.len() - 1),
            _ => format!("Load:float32 %{} 0.0:float32 %{}", lines.len() - 1, lines.len() - 2),
        };
        lines.push(load);
        lines.push(format!("Reduce:float32 %{} %8 {{Add}}", lines.len() - 1));
        lines.push("Index:float32 %0 %1".into());
        lines.push(format!("Store:void %{} %{}", lines.len() - 1, lines.len() - 2));
        lines.push(format!("End:void %{} %1", lines.len() - 1));
        lines.push(format!("Sink:void %{} {{k}}", lines.len() - 1));
        let numbered = lines.iter().enumerate().map(|(i, l)| format!("%{i} = {l}\n"));
        said(&numbered.collect::<String>())
    };
    // inside the loop
    assert_eq!(reads("Add:index %9 %8", ""), Ok(()));
    // before it, where it has a step
    assert_eq!(reads("Add:index %9 0", ";Lt:bool 0 %7"), Ok(()));
    // before it: also where it has none, and what looks like its variable is always 0
    for outside in ["Add:index %9 0", "Mul:index %8 0;Add:index %9 %10", "Idiv:index %8 3;Add:index %9 %10"] {
        assert!(reads(outside, "").is_err_and(|e| e.contains("kernel k: Load")), "{outside}");
    }
}
#[test]
fn what_may_overflow_proves_nothing() {
    // 4*x < 20 also holds for an x whose product wraps around
    assert!(reads("Add:index %7 0", "Mul:index %7 4;Lt:bool %16 20;Not:bool %8;And:bool %17 %18").is_err());
    let big = format!("Mul:index %7 {};Mod:index %15 5", i64::MAX);
    assert!(reads(&big, "").is_err());
    // data of any size may be reduced by itself
    assert_eq!(reads("Mod:index %7 5", ""), Ok(()));
}
#[test]
fn a_byte_of_memory_is_no_truth_value() {
    assert!(reads("Cast:index %14", "").is_err());
    assert_eq!(reads("Cast:index %9", ""), Ok(()));
}
#[test]
fn a_kernel_that_is_not_well_formed_is_refused() {
    let head = |len: &str, range: &str| {
        format!("%0 = Param:float32 {{0 {len}}}\n%1 = Range:index {range}\n%2 = Index:float32 %0 %1\n")
    };
    let store = "%3 = Store:void %2 1.0:float32\n";
    let end = "%4 = End:void %3 %1\n";
    let sink = "%5 = Sink:void %4 {k}\n";
    let plain = head("8", "8 {Global 0}");
    assert_eq!(said(&format!("{plain}{store}{end}{sink}")), Ok(()));
    for bad in [
        format!("{}{store}{end}{sink}", head("8", "9 {Global 0}")),
        format!("{}{store}{end}{sink}", head("8", "-1 {Global 0}")),
        format!("{}{store}{end}{sink}", head("8", "8 {Warp 0}")),
        format!("{}{store}{end}{sink}", head("7", "8 {Global 0}")),
        format!("{}{store}{end}{sink}", head("9223372036854775807", "8 {Global 0}")),
        format!("{plain}{store}{end}{sink}").replace("{0 8}", "{1 8}"),
        format!("{plain}{store}{end}{sink}").replace("%0 %1", "%0 %1 {4}"),
        // a range that is never closed, and one that is another thing of the same number
        format!("{plain}{store}%4 = Sink:void %3 {{k}}\n"),
        format!(
            "{plain}{store}{end}%5 = Range:index 99 {{Global 0}}\n%6 = End:void %4 %5\n%7 = Sink:void %6 {{k}}\n"
        ),
        format!("{plain}{store}{end}%5 = Param:float32 {{0 99}}\n%6 = Sink:void %4 %5 {{k}}\n"),
        format!(
            "{plain}{store}{end}%5 = Variable:index {{n 0 4}}\n%6 = Variable:index {{n 0 9}}\n%7 = Sink:void %4 %5 %6 {{k}}\n"
        ),
        // values that no kernel has
        format!(
            "{plain}%3 = Tdiv:int32 1:int32 0:int32\n%4 = Cast:float32 %3\n%5 = Store:void %2 %4\n%6 = End:void %5 %1\n%7 = Sink:void %6 {{k}}\n"
        ),
        format!(
            "{plain}%3 = Load:float32\n%4 = Store:void %2 %3\n%5 = End:void %4 %1\n%6 = Sink:void %5 {{k}}\n"
        ),
        format!(
            "{plain}%3 = Reduce:float32 1.0:float32 2.0:float32 {{Add}}\n%4 = Store:void %2 %3\n%5 = End:void %4 %1\n%6 = Sink:void %5 {{k}}\n"
        ),
        format!("{plain}%3 = Load:float32 %2\n%4 = Reduce:float32 %3 %1 {{Sub}}\n%5 = Sink:void %4 {{k}}\n"),
    ] {
        let why = said(&bad).expect_err(&bad);
        assert!(!why.starts_with("line"), "{bad}: {why}");
    }
}
#[test]
fn views_name_elements_that_are_there() {
    let checked = |lines: &str| view(&text::parse(lines).unwrap());
    let p = "%0 = Param:float32 {0 12}\n%1 = Variable:index {n 1 4}\n";
    for good in [
        "%2 = Reshape:float32 %0 3 4\n%3 = Permute:float32 %2 {1,0}\n%4 = Flip:float32 %3 {0}",
        "%2 = Reshape:float32 %0 1 12\n%3 = Expand:float32 %2 5 12",
        "%2 = Mul:index %1 3\n%3 = Shrink:float32 %0 0 %2\n%4 = Reshape:float32 %3 %1 3",
        "%2 = Shrink:float32 %0 %1 8",
    ] {
        assert!(checked(&format!("{p}{good}")).is_ok(), "{good}");
    }
    for bad in [
        "%2 = Reshape:float32 %0 3 5",
        "%2 = Expand:float32 %0 24",
        "%2 = Shrink:float32 %0 0 13",
        "%2 = Shrink:float32 %0 -1 3",
        "%2 = Shrink:float32 %0 %1 9",
        "%2 = Reshape:float32 %0 %1 3",
        "%2 = Reshape:float32 %0 3 4\n%3 = Permute:float32 %2 {1,1}",
        "%2 = Reshape:float32 %0 1 12\n%3 = Expand:float32 %2 9223372036854775807 12",
        "%2 = Neg:float32 %0",
    ] {
        assert!(checked(&format!("{p}{bad}")).is_err(), "{bad}");
    }
}
