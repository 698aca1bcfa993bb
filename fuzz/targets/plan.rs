//! Fuzz target: the engine plans or refuses any patch, and plans the same again.
//!
//! The input is three texts: the text that was read, the current text, and a patch with the word `TAG`. The
//! plan's edits produce its text and leave the rest alone. The first byte chooses: line checks shown, all
//! lines or the first few seen, a version between the two.

#![no_main]

use std::sync::Arc;

use hashline::{Limits, Options, Patch, SnapshotStore, Strategy, View, plan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, input)) = data.split_first() else { return };
    let Ok(input) = std::str::from_utf8(input) else { return };
    let mut texts = input.split('\u{1}');
    let (Some(base), Some(current), Some(patch)) = (texts.next(), texts.next(), texts.next()) else { return };
    let current: Arc<str> = if current == "=" { base.into() } else { current.into() };
    let bytes = if choice & 8 != 0 { base.len() } else { 1 << 20 };
    let make = || {
        let mut store = SnapshotStore::new(Limits { paths: 2, versions: 4, bytes });
        let tag = store.record("f", base);
        let seen = if choice & 2 != 0 { 3 } else { usize::MAX };
        store.see("f", tag, 1..=seen);
        if choice & 4 != 0 {
            let fresh = store.record("f", current.clone());
            store.see("f", fresh, 1..=seen);
        }
        (store, tag)
    };
    let (mut store, tag) = make();
    let Ok((patch, _)) = Patch::parse(&patch.replace("TAG", &tag.to_string())) else { return };
    let options = Options { view: View { checks: choice & 1 == 0, ..View::default() }, ..Options::default() };
    let now = |path: &str| (path == "f").then(|| current.clone());
    let first = plan(&patch, &mut store, &now, options);
    let (mut store, _) = make();
    let again = plan(&patch, &mut store, &now, options);
    match (&first, &again) {
        (Ok(first), Ok(again)) => {
            for (first, again) in first.sections.iter().zip(&again.sections) {
                assert_eq!(first.new_text, again.new_text);
            }
        }
        (Err(first), Err(again)) => assert_eq!(first.reason, again.reason),
        _ => panic!("it says one thing and then another: {patch}"),
    }
    let Ok(planned) = first else { return };
    for section in &planned.sections {
        assert_eq!(*section.before, *current);
        assert_eq!(
            text::normalize(&current, &section.edits).as_ref(),
            Ok(&section.edits),
            "in order, none empty"
        );
        assert_eq!(text::apply(&current, &section.edits).as_deref(), Ok(&*section.new_text));
        if section.strategy == Strategy::AlreadyApplied {
            assert_eq!(*section.new_text, *current);
        }
        if base == &*current {
            assert!(
                matches!(section.strategy, Strategy::Exact | Strategy::AlreadyApplied),
                "{:?}",
                section.strategy
            );
        }
    }
});
