//! Calls of tools: their ids, and the forms that templates write them in.

use super::{Server, Setup, chat, with};
use crate::serve::ask;
use serde_json::{Value, json};

/// The marks of Mistral's templates, as tokens of their own.
const MARKS: &[&str] = &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"];

fn tool(name: &str) -> Value {
    let parameters = json!({
        "type": "object", "properties": {"a": {"enum": [name]}}, "required": ["a"], "additionalProperties": false,
    });
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}
/// The message of a forced call.
fn forced(s: &Server, more: Value) -> Value {
    let more = with(json!({"tools": [tool("add"), tool("sub")], "tool_choice": "required"}), more);
    let (status, v) = s.post("/v1/chat/completions", &with(chat("hi"), more));
    assert_eq!((status, &v["choices"][0]["finish_reason"]), (200, &json!("tool_calls")), "{v}");
    v["choices"][0]["message"].clone()
}

#[test]
fn ids_of_calls_come_back_through_any_template() {
    for template in ["listed", "named", "header", "marked"] {
        let s = Setup { template, marks: MARKS, ..Setup::default() }.start();
        let mut ids = vec![];
        for _ in 0..3 {
            let message = forced(&s, json!({}));
            let id = message["tool_calls"][0]["id"].as_str().unwrap().to_string();
            assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
            let result =
                json!({"role": "tool", "tool_call_id": id, "name": "add", "content": "say it back: 3"});
            let asked = json!({"role": "user", "content": "hi"});
            let body = json!({"model": "parrot", "messages": [asked, message, result]});
            let (status, v) = s.post("/v1/chat/completions", &body);
            assert_eq!(status, 200, "{v}");
            let said = v["choices"][0]["message"]["content"].as_str().unwrap();
            let is_shown = matches!(template, "listed" | "named");
            assert!(!is_shown || said.matches(id.as_str()).count() == 2, "{id}: {said}");
            assert!(said.contains("say it back: 3") && said.contains("add"), "{said}");
            ids.push(id);
        }
        let several = with(json!({"tools": [tool("add")], "tool_choice": "required"}), json!({"n": 2}));
        let (_, v) = s.post("/v1/chat/completions", &with(chat("hi"), several.clone()));
        let id = |v: &Value| v["tool_calls"][0]["id"].as_str().map(str::to_string);
        ids.extend((0..2).filter_map(|i| id(&v["choices"][i]["message"])));
        let pieces =
            s.stream("/v1/chat/completions", &with(chat("hi"), with(several, json!({"stream": true}))));
        ids.extend(pieces.iter().filter_map(|p| id(&p["choices"][0]["delta"])));
        assert_eq!(ids.len(), 7, "{ids:?}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 7, "{template}: {ids:?}");
    }
}

#[test]
fn tools_that_may_not_be_called_are_not_shown() {
    for template in ["listed", "named", "header", "marked"] {
        let s = Setup { template, marks: MARKS, ..Setup::default() }.start();
        let body = |choice: &str| {
            with(chat("say it back"), json!({"tools": [tool("subtract")], "tool_choice": choice}))
        };
        for (choice, is_shown) in [("auto", true), ("none", false)] {
            let (status, v) = s.post("/v1/chat/completions", &body(choice));
            assert_eq!(status, 200, "{v}");
            let said = v["choices"][0]["message"]["content"].as_str().unwrap();
            assert_eq!(said.contains("subtract"), is_shown, "{template} {choice}: {said}");
        }
        // with no tools there is nothing to choose
        let (status, v) = s.post("/v1/chat/completions", &with(chat("hi"), json!({"tool_choice": "none"})));
        assert_eq!((status, v["choices"][0]["finish_reason"].as_str()), (200, Some("stop")), "{v}");
    }
}

#[test]
fn forced_calls_name_a_tool_in_every_syntax() {
    for template in ["listed", "named", "header", "marked"] {
        let s = Setup { template, marks: MARKS, ..Setup::default() }.start();
        for (choice, wanted) in
            [(json!("required"), "add"), (json!({"type": "function", "function": {"name": "sub"}}), "sub")]
        {
            let call = forced(&s, json!({"tool_choice": choice}))["tool_calls"][0]["function"].clone();
            let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
            assert_eq!(call["name"], arguments["a"], "{template} {call}");
            assert!(choice == "required" || call["name"] == wanted, "{template} {call}");
        }
    }
}

#[test]
fn json_is_an_object_and_ends_whatever_is_said() {
    let s = Setup::default().start();
    let more = json!({"response_format": {"type": "json_object"}, "max_tokens": 200});
    for words in ["hi", "say it back", "many blanks"] {
        let (_, v) = s.post("/v1/chat/completions", &with(chat(words), more.clone()));
        let text = v["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(text).is_ok_and(|v| v.is_object()), "{words}: {text}");
        assert_eq!(v["choices"][0]["finish_reason"], "stop", "{v}");
        assert_eq!(text.len() > 2, words == "many blanks", "{text:?}");
        let body = with(chat(words), with(more.clone(), json!({"stream": true})));
        let pieces = s.stream("/v1/chat/completions", &body);
        let parts = pieces.iter().filter_map(|p| p["choices"][0]["delta"]["content"].as_str());
        assert_eq!(parts.collect::<String>(), text);
    }
}

#[test]
fn no_calls_are_none_to_a_template() {
    let body = json!({"messages": [
        {"role": "assistant", "content": "hi", "tool_calls": []},
        {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": "{}"}}]},
    ]});
    let prompt = ask::read_chat(&ask::parse(body.to_string().as_bytes()).unwrap()).unwrap();
    let messages: Vec<_> = prompt.messages.try_iter().unwrap().collect();
    let has_calls = messages.iter().map(|m| ask::field(m, "tool_calls").is_some());
    assert_eq!(has_calls.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_template_is_given_what_a_request_has_for_it() {
    let s = Setup { template: "header", ..Setup::default() }.start();
    let more = json!({"chat_template_kwargs": {"greeting": "good morning"}});
    let (_, v) = s.post("/v1/chat/completions", &with(chat("say it back"), more));
    assert!(v["choices"][0]["message"]["content"].as_str().unwrap().contains("good morning"), "{v}");
}
