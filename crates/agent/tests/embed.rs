//! The example of embedding works, and is short.

#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn the_example_of_embedding_works_and_is_short() {
    embed::main().unwrap();
    let lines = include_str!("../examples/embed.rs").lines().count();
    assert!(lines < 40, "{lines} lines");
}
