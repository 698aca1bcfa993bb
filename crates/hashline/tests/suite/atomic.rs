//! A patch over several files applies to all of them or to none.

use std::collections::BTreeSet;

use hashline::{Options, Patch, Section};
use proptest::prelude::*;

use crate::session::Session;

/// The change to a file between read and edit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Drift {
    None,
    Above,
    Target,
    Gone,
}

fn drift() -> impl Strategy<Value = Drift> {
    prop_oneof![3 => Just(Drift::None), 2 => Just(Drift::Above), 1 => Just(Drift::Target), 1 => Just(Drift::Gone)]
}

/// A session over the drifted files, and a patch that edits one line of each.
fn session(files: &[(Drift, usize)]) -> (Session, Patch) {
    let path = |at: usize| format!("f{at}");
    let text = |at: usize| (1..=9).map(|line| format!("{at} line {line}\n")).collect::<String>();
    let mut session = Session::new(&[]);
    let mut patch = Patch::default();
    for (at, (drift, line)) in files.iter().enumerate() {
        session.write(&path(at), &text(at));
        let tag = session.read(&path(at));
        let anchor = session.anchor(&path(at), *line);
        let (parsed, _) = Patch::parse(&format!("[{}#{tag}]\nPUT {anchor}:\n+edited\n", path(at))).unwrap();
        patch.sections.extend(parsed.sections);
        match drift {
            Drift::None => {}
            Drift::Above => session.write(&path(at), &format!("new\n{}", text(at))),
            Drift::Target => {
                let text = text(at).replace(&format!("{at} line {line}\n"), "foreign\n");
                session.write(&path(at), &text);
            }
            Drift::Gone => drop(session.files.texts.remove(&path(at))),
        }
    }
    (session, patch)
}

proptest! {
    #[test]
    fn all_sections_are_applied_or_none(files in prop::collection::vec((drift(), 2usize..9), 1..6)) {
        let (mut together, patch) = session(&files);
        let before = together.files.texts.clone();
        let planned = hashline::plan(&patch, &mut together.store, &together.files, Options::default());
        // Each section is planned alone.
        let mut refused = BTreeSet::new();
        let mut texts = Vec::new();
        for at in 0..files.len() {
            let (mut alone, patch) = session(&files);
            let section: Section = patch.sections[at].clone();
            let path = section.path.clone();
            match hashline::plan(&Patch { sections: vec![section] }, &mut alone.store, &alone.files, Options::default()) {
                Ok(mut plan) => texts.push((path, plan.sections.remove(0).new_text)),
                Err(_) => drop(refused.insert(path)),
            }
        }
        match planned {
            Ok(plan) => {
                prop_assert!(refused.is_empty());
                let planned: Vec<_> =
                    plan.sections.into_iter().map(|section| (section.path, section.new_text)).collect();
                prop_assert_eq!(planned, texts);
            }
            Err(refusal) => {
                let reported: BTreeSet<String> = refusal.sections.iter().map(|section| section.path.clone()).collect();
                prop_assert_eq!(reported, refused);
            }
        }
        prop_assert_eq!(&together.files.texts, &before, "a plan is a value");
    }
}
