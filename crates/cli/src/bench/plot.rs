//! Benchmarks as bars beside those of peers, in an SVG file.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Milliseconds of one benchmark by who ran it, in the order in which they are drawn.
type Rows = Vec<(String, Vec<(String, f64)>)>;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 210.0;
const BAR: f64 = 13.0;
const COLOURS: [&str; 6] = ["#2f7de1", "#f0a03c", "#58a55c", "#b06ad4", "#d9534f", "#7a869a"];

/// What `key` is in a line of JSON without nesting.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.split_once(&format!("\"{key}\""))?.1.trim_start().strip_prefix(':')?.trim_start();
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').next(),
        None => rest.split([',', '}']).next().map(str::trim),
    }
}

/// Benchmarks of peers: a line each with `name`, `ms` and `peer`.
pub fn peers(text: &str) -> Result<Vec<(String, String, f64)>, String> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let each = lines.map(|(i, line)| {
        let wrong = || format!("line {}: expected \"name\", \"ms\" and \"peer\"", i + 1);
        let ms = field(line, "ms").and_then(|v| v.parse().ok()).ok_or_else(wrong)?;
        let text = |key| field(line, key).map(String::from).ok_or_else(wrong);
        Ok((text("name")?, text("peer")?, ms))
    });
    each.collect()
}

/// The chart: for each benchmark that was run a bar of ours and one of each peer, longer is faster, ours is 1.
pub fn chart(ours: &[(String, f64)], peers: &[(String, String, f64)]) -> String {
    let mut by_name: BTreeMap<&str, Vec<(String, f64)>> = BTreeMap::new();
    for (name, peer, ms) in peers {
        by_name.entry(name).or_default().push((peer.clone(), *ms));
    }
    let rows: Rows = ours
        .iter()
        .map(|(name, ms)| {
            let mut row = vec![("frit".to_string(), *ms)];
            row.extend(by_name.remove(name.as_str()).unwrap_or_default());
            (name.clone(), row)
        })
        .collect();
    draw(&rows)
}

fn draw(rows: &Rows) -> String {
    let mut who: Vec<&str> = vec![];
    for (name, _) in rows.iter().flat_map(|r| &r.1) {
        if !who.contains(&name.as_str()) {
            who.push(name);
        }
    }
    let colour = |name: &str| COLOURS[who.iter().position(|w| *w == name).unwrap_or(0) % COLOURS.len()];
    // as many times as fast as us, on a scale on which half and double are equally far
    let speed = |row: &[(String, f64)], ms: f64| row[0].1.max(1e-9) / ms.max(1e-9);
    let most = rows.iter().flat_map(|(_, r)| r.iter().map(|(_, ms)| speed(r, *ms))).fold(1.0, f64::max);
    let scale = (WIDTH - LEFT - 120.0) / most.min(4.0);
    let bars: usize = rows.iter().map(|r| r.1.len()).sum();
    let height = 60.0 + BAR * bars as f64 + 9.0 * rows.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (i, name) in who.iter().enumerate() {
        let x = LEFT + 90.0 * i as f64;
        _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"14\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{}\"/>",
            colour(name)
        );
        _ = writeln!(out, "<text x=\"{}\" y=\"23\" fill=\"#333\">{}</text>", x + 15.0, escaped(name));
    }
    let one = LEFT + scale;
    _ = writeln!(out, "<line x1=\"{one}\" y1=\"34\" x2=\"{one}\" y2=\"{}\" stroke=\"#ccd\"/>", height - 12.0);
    let mut y = 42.0;
    for (name, row) in rows {
        _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#222\">{}</text>",
            LEFT - 10.0,
            y + 9.0,
            escaped(name)
        );
        for (peer, ms) in row {
            let length = (speed(row, *ms).min(4.0) * scale).max(1.0);
            _ = writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" rx=\"2\" fill=\"{}\"/>\n\
                 <text x=\"{:.1}\" y=\"{}\" fill=\"#667\">{} ms</text>",
                BAR - 3.0,
                colour(peer),
                LEFT + length + 6.0,
                y + 9.0,
                super::short(*ms)
            );
            y += BAR;
        }
        y += 9.0;
    }
    _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#889\">longer is faster; the line is frit</text>",
        height - 4.0
    );
    out + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_things_are_fast() {
        let peers = peers(
            "{\"name\": \"a\", \"peer\": \"x<y\", \"ms\": 4.0}\n\n{\"name\":\"b\",\"peer\":\"z\",\"ms\":1}",
        )
        .unwrap();
        assert_eq!(peers[0], ("a".into(), "x<y".into(), 4.0));
        let svg = chart(&[("a".into(), 2.0)], &peers);
        let width = |n: usize| -> f64 {
            let bars = svg.lines().filter(|l| {
                l.contains("height=\"10\" rx=\"2\"")
                    && l.contains("x=\"210\" y=\"")
                    && !l.contains("y=\"14\"")
            });
            bars.map(|l| l.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
                .nth(n)
                .unwrap()
        };
        assert!((width(0) / width(1) - 2.0).abs() < 0.01, "{svg}");
        assert!(svg.contains("x&lt;y") && !svg.contains("x<y"));
        assert!(super::peers("{\"name\": 1}").is_err());
    }
}
