//! The embedding example works and is short.

#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn the_embedding_example_works_and_is_short() {
    embed::main().unwrap();
    let lines = include_str!("../examples/embed.rs").lines().count();
    assert!(lines < 40, "{lines} lines");
}
