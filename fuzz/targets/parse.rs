//! Any input is read or refused, in any dialect; in pieces it reads the same; what was read prints and reads as itself.

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
    // Only an object may leave the tag out, and the canonical dialect has no word for that.
    match Patch::parse(&printed) {
        Ok((again, _)) => assert_eq!(again, patch, "{printed}"),
        Err(error) => assert!(input.trim_start().starts_with(['{', '[']), "{error}: {printed}"),
    }
});
