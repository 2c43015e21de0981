//! Chat templates that want messages as lists of parts, and templates that drop, cut or repeat messages.

use models::chat::{ChatTemplate, Message, NextTurn, Prompt};
use models::embedded;
use models::gguf::GgufFile;
use models::tokenizer::Tokenizer;

fn template(source: &str) -> ChatTemplate {
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    let tokenizer = Tokenizer::from_gguf(&file).expect("the embedded vocabulary");
    ChatTemplate::new(Some(source), &tokenizer).expect("compiles")
}

/// Messages of user, assistant, user, …, after a system message.
fn conversation(turns: &[&str]) -> Vec<Message> {
    let role = |i: usize| if i.is_multiple_of(2) { "user" } else { "assistant" };
    let turns = turns.iter().enumerate().map(|(i, text)| Message::new(role(i), *text));
    std::iter::once(Message::system("Be brief.")).chain(turns).collect()
}

/// A template that writes `body` for each message.
fn for_each(body: &str) -> String {
    format!("{{% for m in messages %}}<{{{{ m.role }}}}>{body}{{% endfor %}}<assistant>")
}

const TEXTS: [&str; 3] = ["A document. \u{E0F0}\u{E0E0}\u{E0F1}\n\n\"Who\" is it?", "It is 'Bob'.", "Why?\n"];

fn want(texts: &[&str]) -> String {
    let roles = ["user", "assistant"].iter().cycle();
    let turns: String = texts.iter().zip(roles).map(|(text, role)| format!("<{role}>{text}")).collect();
    format!("<system>Be brief.{turns}<assistant>")
}

fn whole(prompt: &Prompt, messages: &[Message]) {
    assert_eq!(prompt.unprotected_reason(), None);
    let texts: Vec<&str> = prompt.message_ranges().iter().map(|range| &prompt.text[range.clone()]).collect();
    let all: Vec<&str> = messages.iter().map(|message| message.content.trim()).collect();
    assert_eq!(texts, all);
}

#[test]
fn contents_are_lists_of_parts_where_the_template_wants_them() {
    let loops =
        "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}";
    let both = format!("{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}{loops}{{% endif %}}");
    for body in [
        loops,
        "{% for part in m['content'] %}{{ part['text'] }}{% endfor %}",
        "{{ m.content[0]['text'] }}",
        "{{ '' + m.content[0].text + '' }}",
        "{{ m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('') }}",
        // These want texts, or know both.
        "{{ m.content }}",
        &both,
        "{{ m.content if m.content is string else m.content[0]['text'] }}",
        // Some roles have texts and others parts.
        "{{ m.content[0].text if m.role == 'user' else m.content + '' }}",
        "{{ m.content + '' if m.role == 'system' else m.content[0].text }}",
        "{% if m.role == 'assistant' %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}",
    ] {
        let template = template(&for_each(body));
        let messages = conversation(&TEXTS);
        let first = template.prompt(&messages[..2], true).unwrap_or_else(|e| panic!("{body}: {e}"));
        assert_eq!(first.text, want(&TEXTS[..1]), "{body}");
        whole(&first, &messages[..2]);
        let all = template.prompt(&messages, true).unwrap_or_else(|e| panic!("{body}: {e}"));
        assert_eq!(all.text, want(&TEXTS), "{body}");
        whole(&all, &messages);
        let next = template.next_turn(&messages).unwrap_or_else(|e| panic!("{body}: {e}"));
        let NextTurn::Extends(next) = next else { panic!("{body}: {next:?}") };
        assert_eq!(next.text, "<user>Why?\n<assistant>", "{body}");
        whole(&next, &messages[3..]);
    }
}

#[test]
fn thinking_is_switched_where_contents_are_parts() {
    let source = "{% for m in messages %}{{ '' + m.content[0].text }}{% endfor %}{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}";
    let quiet = template(source).with_thinking(false).expect("a switch");
    let prompt = quiet.prompt(&[Message::user("Hi")], true).expect("renders");
    assert_eq!(prompt.text, "Hi<think></think>");
}

#[test]
fn a_message_that_is_lost_is_an_error_with_its_name() {
    let long = format!("{} What is the last word?", "Some words of a document. ".repeat(20));
    let texts = [
        &long,
        "It is \"document\", since the text ends with this word and nothing else follows it.",
        "Why is that so?",
    ];
    let messages = conversation(&texts);
    let error = |source: &str| match template(source).prompt(&messages, true) {
        Err(error) => error.to_string(),
        Ok(prompt) => panic!("{source}: {}", prompt.text),
    };
    let loops = "{% for part in m.content %}{{ part.text[:40] }}{% endfor %}";
    for (body, what) in [
        // cut
        ("{{ m.content[:100] }}", "cuts or changes question 1"),
        ("{{ m.content[-100:] }}", "cuts or changes question 1"),
        ("{{ m.content[1:] }}", "cuts or changes the system message"),
        ("{{ m.content.split('.')[0] }}", "cuts or changes the system message"),
        (loops, "cuts or changes question 1"),
        ("{{ m.content[0].text[:40] }}", "cuts or changes question 1"),
        ("{{ m.content[0] }}", "leaves out all messages"),
        // changed
        ("{{ m.content | upper }}", "cuts or changes the system message"),
        ("{{ m.content | title if m.role == 'user' else m.content }}", "cuts or changes question 1"),
        ("{{ m.content.replace('document', 'text') }}", "cuts or changes question 1"),
        ("{{ m.content | replace('\"', '') }}", "cuts or changes answer 1"),
        // dropped
        ("{% if m.role != 'system' %}{{ m.content }}{% endif %}", "leaves out the system message"),
        ("{% if m.role != 'user' %}{{ m.content }}{% endif %}", "leaves out question 1"),
        ("{% if m.role != 'assistant' %}{{ m.content }}{% endif %}", "leaves out answer 1"),
        ("{% if m.content | length < 40 %}{{ m.content }}{% endif %}", "leaves out question 1"),
        ("{% if loop.last %}{{ m.content }}{% endif %}", "leaves out the system message"),
        ("{{ m.text }}", "leaves out all messages"),
        // repeated
        ("{{ m.content }} {{ m.content }}", "repeats the system message"),
        ("{{ m.content }}{% if loop.last %}{{ m.content }}{% endif %}", "repeats question 2"),
    ] {
        let error = error(&for_each(body));
        assert!(error.contains(what), "{body}: {error}");
    }
    for (source, what) in [
        ("", "leaves out all messages"),
        ("Hello", "leaves out all messages"),
        ("{{ messages[-1].content }}", "leaves out the system message"),
        ("{{ messages[0].content }}{{ messages[1].content }}", "leaves out answer 1"),
        ("{% for m in messages[-2:] %}{{ m.content }}{% endfor %}", "leaves out the system message"),
        ("{% for m in messages[::-1] %}{{ m.content }}{% endfor %}", "does not keep the order of"),
    ] {
        // An empty template is replaced by the default one.
        let source = if source.is_empty() { "{{ '' }}" } else { source };
        let error = error(source);
        assert!(error.contains(what), "{source}: {error}");
    }
}

#[test]
fn losses_are_found_in_short_messages_too() {
    // Their letters are in the template's own text.
    let messages = [Message::user("s")];
    for source in [
        "<user>{% if messages|length > 1 %}{{ messages[0].content }}{% endif %}<assistant>",
        "<user>{{ messages[0].content | upper }}<assistant>",
        "<user>{{ messages[0].content }}{{ messages[0].content }}<assistant>",
    ] {
        let prompt = template(source).prompt(&messages, true);
        assert!(prompt.is_err(), "{source}: {prompt:?}");
    }
}

#[test]
fn later_turns_are_complete_too() {
    let texts = ["A document. Who is it?", "It is Bob.", "Why?", "He says so.", "When does he say so?"];
    let messages = conversation(&texts);
    for (source, what) in [
        ("{% for m in messages[-3:] %}<{{ m.content }}>{% endfor %}", "leaves out the system message"),
        (
            "{{ messages[0].content }}{% for m in messages[1:][-3:] %}<{{ m.content }}>{% endfor %}",
            "leaves out question 1",
        ),
        (
            "{% for m in messages %}{% if not loop.last %}<{{ m.content }}>{% endif %}{% endfor %}",
            "leaves out question 3",
        ),
        (
            "{% for m in messages %}<{{ m.content[:16] if loop.last else m.content }}>{% endfor %}",
            "cuts or changes question 3",
        ),
        (
            "{% for m in messages %}{% if loop.index0 != 2 %}<{{ m.content }}>{% endif %}{% endfor %}",
            "leaves out answer 1",
        ),
    ] {
        match template(source).next_turn(&messages) {
            Err(error) => assert!(error.to_string().contains(what), "{source}: {error}"),
            Ok(next) => panic!("{source}: {next:?}"),
        }
    }
}

#[test]
fn what_templates_may_do_is_no_loss() {
    let thinking = "<think>\nhm\n</think>\n\nHello there";
    let texts = [" A document.\n\n\"Who\"? ", thinking, " Why?\n"];
    let mut messages = conversation(&texts);
    let good = |source: &str, messages: &[Message]| {
        let prompt = template(source).prompt(messages, true).unwrap_or_else(|e| panic!("{source}: {e}"));
        template(source).next_turn(messages).unwrap_or_else(|e| panic!("{source}: {e}"));
        prompt
    };
    for body in [
        "{{ m.content | trim }}",
        "{{ m.content.split('</think>')[-1].lstrip('\\n') }}",
        "{{ m.content.split('</think>') | last | trim }}",
        "{{ m.content | tojson }}",
        // It looks at what messages contain.
        "{% if m.content == 'Be brief.' %}[{{ m.content }}]{% else %}{{ m.content }}{% endif %}",
        "{% if m.content.startswith(' A document') %}[{{ m.content }}]{% else %}{{ m.content }}{% endif %}",
    ] {
        let prompt = good(&for_each(body), &messages);
        assert!(prompt.text.contains("Hello there"), "{body}: {}", prompt.text);
    }
    // The system message is part of the first question, or of the last one.
    for position in ["loop.index0 == 1", "loop.last"] {
        let source = format!(
            "{{% for m in messages %}}{{% if m.role != 'system' %}}<{{{{ messages[0].content ~ '\n' if {position} else '' }}}}{{{{ m.content }}}}>{{% endif %}}{{% endfor %}}"
        );
        good(&source, &messages);
    }
    // Thinking that is cut off may be dropped.
    messages[2].content = "<think>\nhm".to_owned();
    good(&for_each("{{ m.content.split('<think>')[0] }}"), &messages);
    // Switches of thinking are no text.
    messages[0].content = "Be brief. /no_think".to_owned();
    let source = for_each("{{ m.content.replace('/no_think', '').replace('/think', '').rstrip() }}");
    good(&source, &messages);
}

#[test]
fn a_long_document_is_rendered_whole() {
    let document = "A line of a long document, which is not short.\n".repeat(25_000);
    let messages = [Message::user(format!("{document}\nWhat is it?"))];
    for body in ["{{ m.content }}", "{% for part in m.content %}{{ part.text or part }}{% endfor %}"] {
        let prompt =
            template(&for_each(body)).prompt(&messages, true).unwrap_or_else(|e| panic!("{body}: {e}"));
        whole(&prompt, &messages);
    }
    let cut = for_each("{{ m.content[:1000000] }}");
    let error = template(&cut).prompt(&messages, true).expect_err("the question is lost").to_string();
    assert!(error.contains("cuts or changes question 1"), "{error}");
}
