//! Templates against what jinja2 makes of them (`tests-data/chat/make.py`).

use frit_llm::chat::{Prompt, Template, Value, parse};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Equal texts, and errors where jinja2 has errors; and those that differ.
fn check(folder: &Path) -> (usize, usize, Vec<String>) {
    let goldens = parse(&std::fs::read_to_string(folder.join("goldens.json")).unwrap()).unwrap();
    let get = |v: &Value, key: &str| v.get_attr(key).unwrap();
    let (templates, cases) = (get(&goldens, "templates"), get(&goldens, "cases"));
    let (mut equal, mut errors, mut wrong) = (0, 0, vec![]);
    for name in templates.try_iter().unwrap() {
        let source = std::fs::read_to_string(folder.join(name.as_str().unwrap())).unwrap();
        let template = Template::new(&source, "<s>", "</s>").unwrap_or_else(|e| panic!("{name}: {e}"));
        let wanted = templates.get_item(&name).unwrap();
        for case in wanted.try_iter().unwrap() {
            let made = template.render(&prompt(&cases.get_item(&case).unwrap()));
            let wanted = get(&wanted.get_item(&case).unwrap(), "text");
            match (wanted.as_str(), made) {
                (Some(wanted), Ok(made)) if wanted == made => equal += 1,
                (None, Err(_)) => errors += 1,
                // jinja2 is stricter with what has no length or no order
                (None, Ok(_)) => {}
                (wanted, made) => wrong.push(format!("{name}, {case}:\n{wanted:?}\n{made:?}")),
            }
        }
    }
    (equal, errors, wrong)
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
    let (equal, errors, wrong) = check(folder);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal >= 65 && errors >= 4, "{equal} {errors}");
}

/// The templates of many models, in the folder that `FRIT_FILES` names.
#[test]
fn templates_of_models_are_what_jinja_makes_of_them() {
    let Ok(folder) = std::env::var("FRIT_FILES") else { return };
    let folder = Path::new(&folder).join("templates");
    if !folder.join("goldens.json").exists() {
        return;
    }
    let (equal, errors, mut wrong) = check(&folder);
    // it adds texts to ones that are marked as safe, which escapes them in Python as if they were HTML
    wrong.retain(|w| !w.starts_with("meetkai-functionary-medium-v3.1.jinja"));
    println!("{equal} texts are equal, {errors} errors are errors");
    assert!(wrong.is_empty(), "{} differ, such as {}", wrong.len(), wrong[0]);
    assert!(equal > 850, "{equal}");
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
