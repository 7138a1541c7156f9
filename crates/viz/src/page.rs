//! The page: plain files in this crate, served one by one or put together as one.

/// Name, type and content of each file, in the order in which modules use those before them.
pub const FILES: &[(&str, &str, &str)] = &[
    ("index.html", "text/html; charset=utf-8", include_str!("../page/index.html")),
    ("style.css", "text/css; charset=utf-8", include_str!("../page/style.css")),
    ("layout.js", SCRIPT, include_str!("../page/layout.js")),
    ("dom.js", SCRIPT, include_str!("../page/dom.js")),
    ("source.js", SCRIPT, include_str!("../page/source.js")),
    ("listing.js", SCRIPT, include_str!("../page/listing.js")),
    ("surface.js", SCRIPT, include_str!("../page/surface.js")),
    ("graph.js", SCRIPT, include_str!("../page/graph.js")),
    ("links.js", SCRIPT, include_str!("../page/links.js")),
    ("code.js", SCRIPT, include_str!("../page/code.js")),
    ("passes.js", SCRIPT, include_str!("../page/passes.js")),
    ("kernels.js", SCRIPT, include_str!("../page/kernels.js")),
    ("programs.js", SCRIPT, include_str!("../page/programs.js")),
    ("search.js", SCRIPT, include_str!("../page/search.js")),
    ("roofline.js", SCRIPT, include_str!("../page/roofline.js")),
    ("timeline.js", SCRIPT, include_str!("../page/timeline.js")),
    ("app.js", SCRIPT, include_str!("../page/app.js")),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What a served page may do: scripts and workers of its own server, and nothing from elsewhere.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self' 'unsafe-inline'; \
                          connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
pub fn file(name: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|f| f.0 == name).map(|f| (f.1, f.2))
}

/// The scripts as one: modules in order, without what they say about each other.
fn script() -> String {
    let modules = FILES.iter().filter(|f| f.0.ends_with(".js") && f.0 != "layout.js");
    let lines = modules.flat_map(|f| f.2.lines()).filter(|l| !l.starts_with("import "));
    let mut out = String::from("\"use strict\";\n");
    for line in lines {
        out += line.strip_prefix("export ").unwrap_or(line);
        out.push('\n');
    }
    out
}

/// The page with a pack in it, as one file that needs no server. Its only script is told by its hash (`sha256`, of the
/// script's bytes), so that nothing else in it can run.
pub fn whole(pack: &[u8], sha256: impl Fn(&[u8]) -> [u8; 32]) -> String {
    let script = script();
    let hash = base64(&sha256(script.as_bytes()));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{hash}'; worker-src blob:; style-src 'unsafe-inline'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    );
    let style = file("style.css").map_or("", |f| f.1);
    let worker = file("layout.js").map_or("", |f| f.1);
    let mut out = String::with_capacity(pack.len() * 4 / 3 + 200_000);
    out += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    out += &format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    out += "<meta name=\"color-scheme\" content=\"dark light\">\n<title>frit viz</title>\n";
    out += &format!("<link rel=\"icon\" href=\"data:,\">\n<style>\n{style}</style>\n</head>\n<body>\n");
    out += "<header id=\"bar\"></header>\n<main id=\"view\" tabindex=\"-1\"></main>\n";
    out += &format!("<script type=\"text/plain\" id=\"layout-worker\">\n{worker}</script>\n");
    out += "<script type=\"text/plain\" id=\"pack\">";
    out += &base64(pack);
    out += "</script>\n<script>";
    out += &script;
    out += "</script>\n</body>\n</html>\n";
    out
}

/// Bytes as base64.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let n = three.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for i in 0..4 {
            match i <= three.len() {
                true => out.push(DIGITS[(n >> (18 - 6 * i)) as usize & 63] as char),
                false => out.push('='),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_browsers_read() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
    #[test]
    fn the_one_script_has_no_modules_and_no_name_twice() {
        let script = script();
        assert!(!script.contains("\nimport ") && !script.contains("\nexport "));
        let names: Vec<&str> = script
            .lines()
            .filter_map(|l| {
                let rest = ["function ", "async function ", "class ", "const ", "let "].iter();
                let rest = rest.filter_map(|p| l.strip_prefix(p)).next()?;
                rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').next()
            })
            .collect();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert!(names.len() > 60);
        let twice: Vec<_> = once.iter().filter(|n| names.iter().filter(|m| m == n).count() > 1).collect();
        assert!(twice.is_empty(), "two modules have {twice:?}");
    }
    #[test]
    fn the_page_names_every_file_it_needs() {
        for (name, _, text) in FILES.iter().filter(|f| f.0.ends_with(".js")) {
            for line in text.lines().filter(|l| l.starts_with("import ")) {
                let from = line.split("\"./").nth(1).and_then(|r| r.split('"').next()).unwrap_or("");
                assert!(file(from).is_some(), "{name} imports {from}");
            }
        }
    }
}
