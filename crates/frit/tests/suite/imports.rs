//! Inside a room, files import only in one direction: no circles, and modules stand in the order in which each uses
//! those before it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module by its path inside the crate; the crate itself is empty.
type Module = Vec<String>;

/// Every module of a crate with its text: no comments, no tests.
struct Room {
    modules: BTreeMap<Module, String>,
}

impl Room {
    fn of(name: &str) -> Room {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut room = Room { modules: BTreeMap::new() };
        room.collect(&src, &[]);
        assert!(room.modules.len() > 5, "the files of {name}");
        room
    }
    fn collect(&mut self, dir: &Path, at: &[String]) {
        for entry in std::fs::read_dir(dir).expect("a readable folder").flatten() {
            let (path, mut module) = (entry.path(), at.to_vec());
            let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                module.push(stem);
                self.collect(&path, &module);
                continue;
            }
            if !matches!(&*stem, "lib" | "mod" | "main") {
                module.push(stem);
            }
            let text = std::fs::read_to_string(&path).expect("a readable file");
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
            let code =
                text.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
            self.modules.insert(module, code);
        }
    }

    /// The modules that a module names, by paths from the crate or from its parent.
    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let text = &self.modules[module];
        let parent = &module[..module.len().saturating_sub(1)];
        let from_crate = paths(text, "crate::").into_iter();
        let from_parent = paths(text, "super::").into_iter().map(|p| [parent, &p[..]].concat());
        from_crate.chain(from_parent).filter_map(|p| self.resolve(&p)).filter(|m| m != module).collect()
    }
    /// The module that has an item: through names that modules pass on.
    fn resolve(&self, path: &[String]) -> Option<Module> {
        let mut at = 0;
        while at < path.len() && self.modules.contains_key(&path[..=at]) {
            at += 1;
        }
        let (module, item) = (&path[..at], path.get(at));
        let passed_on = item.and_then(|item| {
            let text = &self.modules[module];
            let all = text.split("pub use ").skip(1).filter_map(|u| u.split(';').next());
            let mut all = all.flat_map(|u| paths(&format!("@{u};"), "@"));
            all.find(|p| p.last() == Some(item) && self.modules.contains_key(&[module, &p[..1]].concat()))
        });
        match passed_on {
            Some(p) => self.resolve(&[module, &p[..]].concat()),
            // what only the crate itself has is for all
            None => (!module.is_empty()).then(|| module.to_vec()),
        }
    }

    /// Modules that import each other, directly or not: each circle once.
    fn circles(&self) -> Vec<Vec<String>> {
        let edges: BTreeMap<&Module, BTreeSet<Module>> =
            self.modules.keys().map(|m| (m, self.imports(m))).collect();
        let reach = |from: &Module| {
            let (mut seen, mut stack) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(m) = stack.pop() {
                for next in edges.get(&m).into_iter().flatten() {
                    if seen.insert(next.clone()) {
                        stack.push(next.clone());
                    }
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> = edges.keys().map(|m| (*m, reach(m))).collect();
        let mut circles = BTreeSet::new();
        for (m, all) in &reached {
            if all.contains(*m) {
                let same = |o: &&Module| all.contains(*o) && reached.get(o).is_some_and(|r| r.contains(*m));
                circles.insert(reached.keys().copied().filter(same).map(|m| m.join("::")).collect());
            }
        }
        circles.into_iter().collect()
    }
    /// The crate's modules in the order in which it lists them.
    fn order(&self) -> Vec<String> {
        let lines = self.modules[&vec![]].lines();
        let names = lines.filter_map(|l| l.split("mod ").nth(1)?.strip_suffix(';').map(String::from));
        names.collect()
    }
}

/// Every path in a text that starts with `root`, lists in braces written out.
fn paths(text: &str, root: &str) -> Vec<Vec<String>> {
    let mut found = vec![];
    for (at, _) in text.match_indices(root) {
        let before = text[..at].chars().next_back();
        if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            expand(&text[at + root.len()..], &mut vec![], &mut found);
        }
    }
    found
}

/// Follow one path, and all of a list; gives what is left of the text.
fn expand<'a>(text: &'a str, so_far: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut list) = text.strip_prefix('{') {
        loop {
            list = expand(list, &mut so_far.clone(), found).trim_start();
            match list.strip_prefix(',') {
                Some(rest) if !rest.trim_start().starts_with('}') => list = rest,
                rest => return rest.unwrap_or(list).trim_start().strip_prefix('}').unwrap_or(list),
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    if end > 0 && &text[..end] != "self" {
        so_far.push(text[..end].into());
    }
    match text[end..].strip_prefix("::") {
        Some(rest) => expand(rest, so_far, found),
        None => {
            found.push(so_far.clone());
            &text[end..]
        }
    }
}

#[test]
fn files_of_a_room_do_not_import_each_other_in_circles() {
    for room in ["schedule", "codegen", "engine"] {
        let circles = Room::of(room).circles();
        assert!(circles.is_empty(), "circles in {room}: {circles:?}");
    }
}

#[test]
fn rooms_list_their_modules_in_the_order_of_their_imports() {
    for room in ["schedule", "codegen", "engine"].map(Room::of) {
        let order = room.order();
        let place = |m: &Module| order.iter().position(|o| *o == m[0]).expect("a module that lib.rs lists");
        for module in room.modules.keys().filter(|m| !m.is_empty()) {
            for import in room.imports(module) {
                assert!(place(&import) <= place(module), "{module:?} uses {import:?}, which comes after it");
            }
        }
    }
}

#[test]
fn paths_are_found_in_lists_and_in_code() {
    let text = "use crate::{Error, memory::{buffer::Buffer, view::{self, base_of}}, stats};\nlet x = crate::plan::plan(y);";
    let found: Vec<String> = paths(text, "crate::").iter().map(|p| p.join(".")).collect();
    let want = ["Error", "memory.buffer.Buffer", "memory.view", "memory.view.base_of", "stats", "plan.plan"];
    assert_eq!(found, want);
}
