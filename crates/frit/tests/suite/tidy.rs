//! The repository keeps its own promises: the dependency table, documented flags, file sizes, no stray panics.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

pub fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(dir).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

pub fn crates() -> Vec<String> {
    let dirs = std::fs::read_dir(root().join("crates")).expect("crates/ is there").flatten();
    let mut names: Vec<String> = dirs.map(|d| d.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The part of a source file before its unit tests.
fn without_tests(source: &str) -> &str {
    source.split("#[cfg(test)]").next().unwrap_or(source)
}

#[test]
fn rooms_depend_on_what_the_architecture_says() {
    let table = read("ARCHITECTURE.md");
    for name in crates() {
        let row = table.lines().find(|l| l.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for {name}"));
        let cell = row.trim_end_matches(" |").rsplit('|').next().unwrap_or("").trim().to_string();
        let said: BTreeSet<String> =
            cell.split(',').map(|s| s.trim().to_string()).filter(|s| !s.is_empty() && s != "–").collect();
        let manifest = read(format!("crates/{name}/Cargo.toml"));
        let section = manifest.split("[dependencies]").nth(1).unwrap_or("").split("\n[").next().unwrap_or("");
        let real: BTreeSet<String> = section
            .lines()
            .filter_map(|l| l.split(['.', ' ', '=']).next())
            .filter_map(|d| if d == "frit" { Some("frit") } else { d.strip_prefix("frit-") })
            .map(String::from)
            .collect();
        assert_eq!(real, said, "dependencies of {name}: the manifest (left) against ARCHITECTURE.md (right)");
    }
}

/// Whether code, not a comment or a text, says `unsafe`.
fn has_unsafe(source: &str) -> bool {
    let code = source.lines().map(|l| l.split("//").next().unwrap_or(""));
    code.into_iter().any(|l| {
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe("].iter().any(|u| l.contains(u))
    })
}

#[test]
fn rooms_that_need_nothing_unsafe_forbid_it() {
    for room in crates() {
        let src = root().join("crates").join(&room).join("src");
        let unsafe_files = rust_files(&src).into_iter().filter(|f| has_unsafe(&read(f))).count();
        let top = ["lib.rs", "main.rs"].into_iter().map(|f| src.join(f)).find(|f| f.exists());
        let forbids = read(top.expect("a crate has a root")).contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, unsafe_files == 0, "{room}: {unsafe_files} files have unsafe code");
    }
}

#[test]
fn every_crate_can_be_published_and_has_the_one_version() {
    let workspace = read("Cargo.toml");
    let version = workspace.lines().find_map(|l| l.strip_prefix("version = ")).expect("a version").trim();
    let for_tests = |l: &str| l.starts_with("frit-reference") || l.starts_with("frit-mock");
    let own = workspace.lines().filter(|l| l.starts_with("frit") && !for_tests(l));
    for line in own {
        assert!(line.contains(&format!("version = {version},")), "{line}: the version is {version}");
    }
    for room in crates() {
        let manifest = read(format!("crates/{room}/Cargo.toml"));
        let fields = [
            "description = ",
            "version.workspace",
            "license.workspace",
            "keywords.workspace",
            "readme.workspace",
        ];
        for field in fields {
            assert!(manifest.contains(field), "crates/{room}/Cargo.toml has no {field}");
        }
    }
}

#[test]
fn every_environment_flag_is_documented() {
    let docs = read("README.md") + &read("ARCHITECTURE.md");
    let mut missing = BTreeSet::new();
    for file in rust_files(&root().join("crates"))
        .into_iter()
        .filter(|f| !f.components().any(|c| c.as_os_str() == "tests"))
    {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        for part in text.split("\"FRIT_").skip(1) {
            let name: String = part.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            if !name.is_empty() && !docs.contains(&format!("FRIT_{name}")) {
                missing.insert(format!("FRIT_{name}"));
            }
        }
    }
    assert!(missing.is_empty(), "flags that neither README.md nor ARCHITECTURE.md names: {missing:?}");
}

#[test]
fn rooms_that_face_users_do_not_unwrap() {
    for room in ["runtime", "engine", "tensor", "nn", "onnx", "tokenize", "llm", "python"] {
        for file in rust_files(&root().join("crates").join(room).join("src")) {
            let text = std::fs::read_to_string(&file).expect("a readable file");
            for (i, line) in without_tests(&text).lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                assert!(!code.contains(".unwrap()"), "{}:{}: {}", file.display(), i + 1, line.trim());
            }
        }
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for file in rust_files(&root().join("crates")) {
        let lines = std::fs::read_to_string(&file).expect("a readable file").lines().count();
        assert!(lines <= 900, "{} has {lines} lines: it is asking to be two", file.display());
    }
}

#[test]
fn passes_of_the_x86_writer_are_named_after_their_files() {
    let dir = root().join("crates/render/src/x86");
    let list = read("crates/render/src/x86/mod.rs");
    let rows = list.split("PASSES: ").nth(1).and_then(|l| l.split("];").next()).expect("a list of passes");
    let names: Vec<&str> = rows.split("(\"").skip(1).filter_map(|r| r.split('"').next()).collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let is_there = dir.join(format!("{name}.rs")).exists() || dir.join(name).join("mod.rs").exists();
        assert!(is_there && rows.contains(&format!("{name}::{name}")), "the pass {name} is not its file");
    }
}

#[test]
fn back_ends_have_the_same_files() {
    let has = |path: &str| assert!(root().join("crates").join(path).exists(), "{path} is not there");
    for language in ["c", "bytecode", "ptx", "x86/select"] {
        for file in ["mod", "types", "values", "memory", "control"] {
            has(&format!("render/src/{language}/{file}.rs"));
        }
    }
    for device in ["cpu", "interp", "null"] {
        for file in ["mod", "device", "target", "program"] {
            has(&format!("runtime/src/{device}/{file}.rs"));
        }
    }
}

/// What the README's first command builds, and the wheel: no server.
#[test]
fn http_is_the_command_lines_alone() {
    let tree = |package: &str| {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let words = ["tree", "--offline", "--prefix", "none", "--format", "{p}", "-p", package];
        let out =
            std::process::Command::new(cargo).args(words).current_dir(root()).output().expect("cargo runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("names are text")
    };
    let has = |tree: &str, name: &str| tree.lines().any(|l| l.split(' ').next() == Some(name));
    for package in ["frit", "frit-python", "frit-llm"] {
        let tree = tree(package);
        assert!(has(&tree, "frit-tensor"), "{tree}");
        for server in ["axum", "tokio", "hyper", "mio"] {
            assert!(!has(&tree, server), "{package} builds {server}");
        }
    }
    assert!(has(&tree("frit-cli"), "axum"), "frit serve is built of it");
}

/// Decoders of pictures and sounds are what programs have, not libraries: `nn` and `onnx` take functions.
#[test]
fn pictures_and_sounds_are_decoded_by_the_command_line_and_examples() {
    for room in crates() {
        let manifest = read(format!("crates/{room}/Cargo.toml"));
        let section = |name: &str| {
            let behind = manifest.split(&format!("[{name}]\n")).nth(1).unwrap_or_default();
            behind.split("\n[").next().unwrap_or_default().to_string()
        };
        for decoder in ["image", "hound"] {
            let needs =
                |section: &str| section.lines().any(|l| l.split(['=', '.', ' ']).next() == Some(decoder));
            assert!(!needs(&section("dependencies")) || room == "cli", "{room} is built with {decoder}");
            assert!(!needs(&section("dev-dependencies")) || room == "frit", "{room} tests with {decoder}");
        }
    }
    assert!(read("crates/frit/Cargo.toml").contains("\nhound ="), "an example reads sounds");
}
