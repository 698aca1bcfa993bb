//! Fuzz target: any input parses or is refused, in any dialect.
//!
//! In chunks it parses the same, and a parsed patch prints to itself.

#![no_main]

use hashline::{Parser, Patch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((cut, input)) = data.split_first() else { return };
    let Ok(input) = std::str::from_utf8(input) else { return };
    let whole = Patch::parse(input);
    let mut parser = Parser::new();
    let mut rest = input;
    while !rest.is_empty() {
        let at =
            (1 + usize::from(*cut)..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        parser.push(&rest[..at]);
        rest = &rest[at..];
    }
    assert_eq!(parser.finish(), whole, "in pieces it reads otherwise");
    let Ok((patch, _)) = whole else { return };
    let printed = patch.to_string();
    // Only a json object may omit the tag, which the canonical dialect cannot express.
    match Patch::parse(&printed) {
        Ok((again, _)) => assert_eq!(again, patch, "{printed}"),
        Err(error) => assert!(input.trim_start().starts_with(['{', '[']), "{error}: {printed}"),
    }
});
