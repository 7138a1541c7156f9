//! Templates against what jinja2 makes of them (`tests-data/chat/make.py`).

use crate::files;
use frit_llm::chat::{Prompt, Template, Value, parse};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// What became of each case of each template.
#[derive(Default)]
struct Compared {
    templates: usize,
    cases: usize,
    equal: usize,
    /// Errors here and there.
    refused: usize,
    /// Equal but for the characters that HTML escapes: how many of a template.
    escaped: BTreeMap<String, usize>,
    /// Errors of jinja2 where we have a text.
    lenient: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}
fn check(folder: &Path) -> Compared {
    let goldens = parse(&read(&folder.join("goldens.json"))).unwrap();
    let get = |v: &Value, key: &str| v.get_attr(key).unwrap();
    let (templates, cases) = (get(&goldens, "templates"), get(&goldens, "cases"));
    let mut all =
        Compared { templates: templates.len().unwrap(), cases: cases.len().unwrap(), ..Compared::default() };
    for name in templates.try_iter().unwrap() {
        let source = read(&folder.join(name.as_str().unwrap()));
        let template = Template::new(&source, "<s>", "</s>").unwrap_or_else(|e| panic!("{name}: {e}"));
        let wanted = templates.get_item(&name).unwrap();
        assert_eq!(wanted.len(), cases.len(), "{name}");
        for case in wanted.try_iter().unwrap() {
            let made = template.render(&prompt(&cases.get_item(&case).unwrap()));
            let wanted = get(&wanted.get_item(&case).unwrap(), "text");
            let one_of =
                |counts: &mut BTreeMap<String, usize>| *counts.entry(name.to_string()).or_default() += 1;
            match (wanted.as_str(), made) {
                (Some(wanted), Ok(made)) if wanted == made => all.equal += 1,
                (None, Err(_)) => all.refused += 1,
                (None, Ok(_)) => one_of(&mut all.lenient),
                (Some(wanted), Ok(made)) if without_escapes(wanted) == made => one_of(&mut all.escaped),
                (wanted, made) => all.wrong.push(format!("{name}, {case}:\n{wanted:?}\n{made:?}")),
            }
        }
    }
    all
}
/// Texts of HTML as they were before they were escaped.
fn without_escapes(text: &str) -> String {
    let escapes = [("&#34;", "\""), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    escapes.iter().fold(text.to_string(), |text, (escaped, plain)| text.replace(escaped, plain))
}
fn prompt(case: &Value) -> Prompt {
    let mut p = Prompt::new(case.get_attr("messages").unwrap());
    p.now = UNIX_EPOCH + Duration::from_secs(1_772_874_302);
    for key in case.try_iter().unwrap() {
        let value = case.get_item(&key).unwrap();
        match key.as_str().unwrap() {
            "messages" => {}
            "tools" => p.tools = Some(value),
            "add_generation_prompt" => p.answer = value.is_true(),
            name => drop(p.more.insert(name.into(), value)),
        }
    }
    p
}

#[test]
fn our_templates_are_what_jinja_makes_of_them() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests-data/chat"));
    let all = check(folder);
    assert!(all.wrong.is_empty(), "{}", all.wrong.join("\n"));
    assert!(all.equal >= 65 && all.refused >= 4, "{} {}", all.equal, all.refused);
    assert_eq!(all.equal + all.refused, all.templates * all.cases);
}

/// Those of llama.cpp's models/templates, each with and without tools, in the folder that `FRIT_FILES` names.
#[test]
fn templates_of_models_are_what_jinja_makes_of_them() {
    let Some(folder) = files() else { return };
    let all = check(&folder.join("templates"));
    assert!(all.wrong.is_empty(), "{} differ, such as {}", all.wrong.len(), all.wrong[0]);
    let of = |names: &[(&str, usize)]| names.iter().map(|(n, count)| (n.to_string(), *count)).collect();
    // it adds to texts that are marked as safe, and what is added to those Python escapes as if it were HTML
    let escaped: BTreeMap<_, _> = of(&[("meetkai-functionary-medium-v3.1.jinja", 8)]);
    // jinja2 goes through no parts of a content that is none, and has no JSON of what `map` gives
    let lenient: BTreeMap<_, _> = of(&[("LFM2.5-8B-A1B.jinja", 1), ("llama-cpp-deepseek-r1.jinja", 8)]);
    assert_eq!((all.escaped, all.lenient), (escaped, lenient));
    assert_eq!((all.templates, all.cases, all.equal, all.refused), (71, 17, 1070, 120));
}

#[test]
fn what_a_template_refuses_is_an_error_with_its_words() {
    let t = Template::new("{{ raise_exception('no ' ~ messages|length) }}", "", "").unwrap();
    let error = t.render(&Prompt::new(parse("[1, 2]").unwrap())).unwrap_err().to_string();
    assert!(error.contains("no 2") && error.contains("line 1"), "{error}");
    assert!(Template::new("{% if x %}", "", "").is_err());
    // no template may run for ever
    let t = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(99) %}{% endfor %}{% endfor %}{% endfor %}";
    let t = Template::new(t, "", "").unwrap();
    assert!(t.render(&Prompt::new(parse("[]").unwrap())).is_err());
}
