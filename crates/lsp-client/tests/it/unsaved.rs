//! What an editor has not saved is the truth, also of files that nobody asks about.

use crate::bench::{LONG, cx};
use crate::trials::{pushed, with};

#[tokio::test]
async fn what_is_not_saved_is_shown_also_where_nobody_asks_about_it() {
    let (bench, typing) = with(pushed(), "");
    typing.types(&bench.path("b.txt"), "typed");
    assert_eq!(bench.hover("a.txt").await, "a");
    assert_eq!(bench.server_has().await, ["a.txt 1: a", "b.txt 1: typed"]);
    typing.types(&bench.path("c.txt"), "typed too");
    typing.types(&bench.path("b.txt"), "typed more");
    assert_eq!(bench.server_has().await, ["a.txt 1: a", "b.txt 2: typed more", "c.txt 1: typed too"]);
    typing.closes(&bench.path("b.txt"));
    assert_eq!(bench.server_has().await, ["a.txt 1: a", "b.txt 3: b", "c.txt 1: typed too"]);
}

#[tokio::test]
async fn what_was_said_before_another_file_was_typed_in_is_not_repeated() {
    let (bench, typing) = with(pushed(), "");
    let opened = || bench.got("scripted", "textDocument/didOpen").len();
    for expected in [1, 1] {
        let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
        assert_eq!(answer.items[0].message, "about a");
        assert_eq!(opened(), expected);
    }
    typing.types(&bench.path("b.txt"), "typed");
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
    assert_eq!(answer.items[0].message, "about a");
    assert_eq!(opened(), 3, "the file typed in, and then the other one anew");
}

#[tokio::test]
async fn what_is_not_saved_stays_open_however_much_is_opened() {
    let (bench, typing) = with(pushed(), "");
    let names: Vec<String> = (10..70).map(|number| format!("d{number}.txt")).collect();
    names.iter().for_each(|name| typing.types(&bench.path(name), "typed"));
    assert_eq!(bench.hover("a.txt").await, "a");
    assert_eq!(bench.hover("b.txt").await, "b");
    let has = bench.server_has().await;
    assert!(names.iter().all(|name| has.contains(&format!("{name} 1: typed"))), "{has:?}");
    assert_eq!(has.last().map(String::as_str), Some("d69.txt 1: typed"));
    assert!(bench.got("scripted", "textDocument/didOpen").len() <= 62, "nothing is opened twice");
}

#[tokio::test]
async fn where_a_definition_says_so_it_is_opened_as_it_was_saved_and_then_changed() {
    let (bench, typing) = with(pushed(), "opens_saved = true\n");
    assert_eq!(bench.hover("a.txt").await, "a");
    typing.types(&bench.path("b.txt"), "typed");
    typing.types(&bench.path("new.txt"), "not on the disk");
    assert_eq!(bench.server_has().await, ["a.txt 1: a", "b.txt 2: typed", "new.txt 1: not on the disk"]);
    let opened = bench.got("scripted", "textDocument/didOpen");
    let opened = opened.iter().find(|it| it["textDocument"]["uri"] == bench.uri("b.txt")).unwrap();
    assert_eq!(opened["textDocument"]["text"], "b");
}
