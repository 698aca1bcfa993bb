//! Searches over stored sessions, and over damaged indexes.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests change indexes and sessions as other programs would"
)]

use std::sync::Arc;

use agent::store::{NewSession, SessionFile};
use llm::{Content, Message};
use paths::AbsPath;
use serde_json::json;

use super::*;

struct Place {
    directory: tempfile::TempDir,
    store: SessionStore,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let path = AbsPath::new(directory.path().canonicalize().unwrap()).unwrap();
        Place { store: SessionStore::new(StateDir::new(path.join("sessions"))), directory }
    }

    fn index(&self) -> StateDir {
        StateDir::new(AbsPath::new(self.directory.path().canonicalize().unwrap().join("search")).unwrap())
    }

    fn session(&self, id: &str, texts: &[&str]) -> SessionFile {
        let mut file = self.store.create(NewSession { id: id.to_owned(), ..Default::default() });
        texts.iter().for_each(|text| say(&mut file, text));
        file
    }

    fn answer(&self, query: &str) -> Answer {
        SessionSearch::new(&self.store, self.index()).search(query, 10).unwrap()
    }

    /// Checks the hits' sessions, by id, and excerpts.
    #[track_caller]
    fn check(&self, query: &str, expected: &[(&str, &str)]) {
        let answer = self.answer(query);
        let mut found: Vec<(&str, &str)> =
            answer.hits.iter().map(|hit| (hit.session.as_str(), hit.excerpt.as_str())).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{query}");
        assert!(!answer.only_some_words && answer.warnings.is_empty(), "{query}: {answer:?}");
    }

    fn index_files(&self) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(self.index().path().as_path().join(INDEX)).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn say(file: &mut SessionFile, text: &str) {
    let id = file.new_id();
    file.append_message(&id, &Message::user(text)).unwrap();
}

#[test]
fn words_are_found_in_all_sessions_and_in_later_entries() {
    let place = Place::new();
    place.check("anything", &[]);
    let mut one = place.session("one", &["rename parseHeader please", "nothing here"]);
    place.session("two", &["The HEADER of a parse", "café"]);
    place.check("header", &[("one", "rename parseHeader please"), ("two", "The HEADER of a parse")]);
    place.check("parseHeader", &[("one", "rename parseHeader please")]);
    place.check("\"header of\"", &[("two", "The HEADER of a parse")]);
    place.check("header -rename", &[("two", "The HEADER of a parse")]);
    place.check("cafe", &[("two", "café")]);
    say(&mut one, "a header that came later");
    place.check("header -of", &[("one", "a header that came later"), ("one", "rename parseHeader please")]);
    let some = place.answer("rename absent");
    assert!(some.only_some_words && some.hits.len() == 1, "{some:?}");
    let search = SessionSearch::new(&place.store, place.index());
    assert!(matches!(search.search(" -not \"\" ", 10), Err(SearchError::NoWords)));
}

#[test]
fn tool_arguments_and_results_are_found_pictures_are_not() {
    let place = Place::new();
    let mut file = place.session("one", &[]);
    let call = json!({"role": "assistant", "stopReason": "toolUse", "content": [
        {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "cargo frobnicate", "n": [{"deep": "xyzzy"}]}}]});
    let result = json!({"role": "toolResult", "toolCallId": "c", "toolName": "bash", "isError": false,
        "content": [{"type": "text", "text": "frobnicated"}, {"type": "image", "data": "plugh", "mimeType": "image/png"}]});
    for message in [call, result] {
        let id = file.new_id();
        file.append_message(&id, &serde_json::from_value(message).unwrap()).unwrap();
    }
    let kinds = |query: &str| place.answer(query).hits.into_iter().map(|it| it.kind).collect::<Vec<_>>();
    assert_eq!(kinds("frobnicate"), ["assistant"]);
    assert_eq!(kinds("xyzzy"), ["assistant"]);
    assert_eq!(kinds("frobnicated"), ["toolResult"]);
    assert_eq!(kinds("plugh"), [""; 0]);
    let last = file.last().unwrap().to_owned();
    file.append_label(&last, Some("waypoint")).unwrap();
    assert_eq!(kinds("waypoint"), ["label"]);
}

#[test]
fn an_inherited_entry_is_one_hit_and_deletion_leaves_none() {
    let place = Place::new();
    drop(place.session("parent", &["an inherited word", "another"]));
    let child = place.store.fork(&place.store.load("parent").unwrap(), None, "/p").unwrap();
    // The names are as if both began in one millisecond, with the child's name sorting first.
    let directory = place.directory.path().join("sessions");
    let names =
        std::fs::read_dir(&directory).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let child_file = names.into_iter().find(|name| name.contains(&child)).unwrap();
    let earlier = child_file.replacen('2', "1", 1);
    std::fs::rename(directory.join(child_file), directory.join(earlier)).unwrap();
    place.check("inherited", &[("parent", "an inherited word")]);
    place.store.delete("parent").unwrap();
    place.check("inherited", &[(&child, "an inherited word")]);
    place.store.delete(&child).unwrap();
    forget(&place.index()).unwrap();
    assert!(!place.index().path().as_path().join(INDEX).exists());
    place.check("inherited", &[]);
}

#[test]
fn a_name_of_several_words_is_found_as_one() {
    let place = Place::new();
    let text = "TypeScript, JavaScript macOS OAuth PostgreSQL (GitHub)";
    place.session("one", &[text]);
    place.session("two", &["typescript in lower case, type script apart"]);
    for word in ["javascript", "macos", "oauth", "postgresql", "github", "GitHub", "script -lower"] {
        place.check(word, &[("one", text)]);
    }
    for word in ["typescript", "TypeScript", "\"type script\""] {
        assert_eq!(place.answer(word).hits.len(), 2, "{word}");
    }
    // A compound is at no position between the others.
    place.check("\"TypeScript JavaScript macOS\"", &[("one", text)]);
    assert!(place.answer("scriptjavascript").hits.is_empty());
    assert!(place.answer("typescriptjava").hits.is_empty());
}

#[test]
fn a_lost_or_damaged_index_is_rebuilt() {
    let place = Place::new();
    let texts: Vec<String> = (0..200).map(|at| format!("word{at} common")).collect();
    place.session("one", &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let find = |what: &str| {
        let answer = place.answer("word77");
        assert_eq!(answer.hits.len(), 1, "{what}");
    };
    find("first");
    let count = place.index_files().len();
    assert!(count > 3, "{count}");
    for at in 0..count {
        type Spoil = fn(Vec<u8>) -> Vec<u8>;
        let spoils: [(&str, Spoil); 6] = [
            ("cut", |bytes| bytes[..bytes.len() / 2].to_vec()),
            ("emptied", |_| Vec::new()),
            ("other", |_| b"garbage".to_vec()),
            ("other and longer", |_| b"garbage garbage ".to_vec()),
            ("turned", |bytes| bytes.iter().map(|byte| byte ^ 0x55).collect()),
            ("zeroed", |bytes| vec![0; bytes.len()]),
        ];
        for (how, spoil) in spoils {
            let files = place.index_files();
            let Some(file) = files.get(at) else { continue };
            let bytes = std::fs::read(file).unwrap();
            std::fs::write(file, spoil(bytes)).unwrap();
            find(&format!("{how}: {}", file.display()));
        }
        if let Some(file) = place.index_files().get(at) {
            std::fs::remove_file(file).unwrap();
            find(&format!("removed: {}", file.display()));
        }
    }
    std::fs::remove_dir_all(place.index().path().as_path()).unwrap();
    find("all gone");
}

#[test]
fn a_rewritten_session_is_indexed_again_a_bad_one_reported() {
    let place = Place::new();
    drop(place.session("one", &["alpha beta"]));
    place.check("alpha", &[("one", "alpha beta")]);
    let name = place.store.files().unwrap().remove(0).name;
    let path = place.directory.path().join("sessions").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("alpha beta", "gamma delta é")).unwrap();
    place.check("alpha", &[]);
    place.check("gamma", &[("one", "gamma delta é")]);
    // A crash has cut the last line.
    std::fs::write(&path, format!("{}{}", text, &text[text.len() / 2..text.len() - 9])).unwrap();
    place.check("alpha", &[("one", "alpha beta")]);
    std::fs::write(place.directory.path().join("sessions/2020_bad.jsonl"), "no session\n").unwrap();
    let answer = place.answer("alpha");
    assert_eq!((answer.hits.len(), answer.warnings.len()), (1, 1), "{answer:?}");
}

#[test]
fn only_appended_lines_are_indexed() {
    let place = Place::new();
    let mut file = place.session("one", &["alpha"]);
    place.check("alpha", &[("one", "alpha")]);
    let before = place.index_files();
    place.check("alpha", &[("one", "alpha")]);
    assert_eq!(place.index_files(), before);
    say(&mut file, "beta");
    place.check("alpha", &[("one", "alpha")]);
    let after = place.index_files();
    assert!(before.iter().filter(|file| after.contains(file)).count() > 1, "{before:?} {after:?}");
    assert!(after.len() > before.len(), "the existing files are kept and one is added: {after:?}");
}

#[test]
fn concurrent_searches_wait_for_each_other() {
    let place = Arc::new(Place::new());
    place.session("one", &["alpha"]);
    std::thread::scope(|scope| {
        let searches: Vec<_> = (0..8).map(|_| scope.spawn(|| place.answer("alpha").hits.len())).collect();
        for search in searches {
            assert_eq!(search.join().unwrap(), 1);
        }
    });
}

#[test]
fn key_like_strings_are_not_indexed() {
    let place = Place::new();
    let key = format!("ghp_{}", "a1B2".repeat(9));
    place.session("one", &[&format!("my token is {key} see")]);
    assert_eq!(place.answer("token").hits.len(), 1);
    let needle = agent_words(&key);
    assert_eq!(place.answer(&needle).hits.iter().filter(|hit| hit.excerpt.contains(&key)).count(), 0);
    assert!(!place.answer("token").hits[0].excerpt.contains(&key));
    // The quoted key consists of several words.
    let answer = place.answer(&format!("\"{key}\""));
    assert_eq!(answer.hits.len(), 0, "{answer:?}");
}

fn agent_words(text: &str) -> String {
    let mut words = Vec::new();
    agent::discovery::each_word(text, |word| words.push(word.to_owned()));
    words.join(" ")
}

#[test]
fn blocks_without_text_are_not_searched() {
    let place = Place::new();
    let mut file = place.session("one", &[]);
    let id = file.new_id();
    let picture = Content::Image { data: "abc".to_owned(), mime_type: "image/png".to_owned() };
    let message = Message::User(llm::UserMessage { content: vec![picture], timestamp: 0 });
    file.append_message(&id, &message).unwrap();
    place.check("abc", &[]);
}
