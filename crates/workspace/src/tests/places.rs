//! Paths and documents: the target of a spelling, and files readable as text.

use std::os::unix::fs::symlink;

use super::*;
use crate::{Editor, EntryKind, OpenError, Owner, PathError, ReadError};

#[test]
fn every_spelling_resolves_to_one_path() {
    let fixture = Fixture::new(&[("real/deep/a.py", "x"), ("b.py", "y")]);
    let root = fixture.workspace.root().as_path().to_owned();
    symlink("real/deep", root.join("link")).unwrap();
    symlink(root.join("real/deep/a.py"), root.join("absolute.py")).unwrap();
    symlink("absolute.py", root.join("twice.py")).unwrap();
    symlink(&root, fixture.directory.as_path().join("elsewhere")).unwrap();
    let there = fixture.path("real/deep/a.py");
    let outside = fixture.directory.as_path().join("elsewhere/link/a.py");
    for spelling in [
        "real/deep/a.py",
        "./real//deep/./a.py",
        "real/missing/../deep/a.py",
        "link/a.py",
        "absolute.py",
        "twice.py",
        "link/../deep/a.py",
        outside.to_str().unwrap(),
        root.join("link/a.py").to_str().unwrap(),
    ] {
        assert_eq!(fixture.workspace.resolve(spelling).unwrap(), there, "{spelling}");
    }
    // `..` after a link is the directory above its target, not the one that contains the link.
    assert_eq!(fixture.workspace.resolve("link/../b.py").unwrap(), fixture.path("real/b.py"));
    assert_eq!(fixture.workspace.resolve("new/directory/c.py").unwrap(), fixture.path("new/directory/c.py"));
    assert_eq!(fixture.workspace.resolve(".").unwrap(), *fixture.workspace.root());
    assert_eq!(fixture.workspace.relative(&there), "real/deep/a.py");
    assert_eq!(fixture.workspace.relative(fixture.workspace.root()), ".");
    assert_eq!(fixture.workspace.relative(&AbsPath::new("/etc/passwd").unwrap()), "/etc/passwd");
}

#[test]
fn paths_outside_are_refused_with_their_target() {
    let fixture = Fixture::new(&[("a.py", "x")]);
    let root = fixture.workspace.root().as_path().to_owned();
    symlink("/etc", root.join("etc")).unwrap();
    symlink("../new.txt", root.join("dangling")).unwrap();
    symlink("round", root.join("round")).unwrap();
    let canonical = std::fs::canonicalize(fixture.directory.as_path()).unwrap();
    for (spelling, leads) in [
        ("../x", canonical.join("x")),
        ("/etc/passwd", "/etc/passwd".into()),
        ("etc/passwd", "/etc/passwd".into()),
        ("etc/../tmp/a.py", "/tmp/a.py".into()),
        ("dangling", canonical.join("new.txt")),
        ("../root-but-not/a.py", canonical.join("root-but-not/a.py")),
    ] {
        match fixture.workspace.resolve(spelling) {
            Err(PathError::Outside { path, target }) => {
                assert_eq!((path.as_str(), target.as_path()), (spelling, leads.as_path()));
            }
            other => panic!("{spelling}: {other:?}"),
        }
    }
    for spelling in ["", "a\0b", "round", "round/a"] {
        let found = fixture.workspace.resolve(spelling);
        assert!(matches!(found, Err(PathError::Invalid { .. })), "{spelling:?}: {found:?}");
    }
}

#[test]
fn only_text_in_regular_files_is_a_document() {
    let fixture = Fixture::new(&[("bom.py", "\u{feff}a\r\nb"), ("empty.py", ""), ("directory/a", "")]);
    let root = fixture.workspace.root().as_path().to_owned();
    write(&root.join("latin"), b"ab\xe9cd");
    let big = std::fs::File::create(root.join("big")).unwrap();
    big.set_len((32 << 20) + 1).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let document = |path: &str| fixture.workspace.document(&fixture.path(path));

    let with_bom = document("bom.py").unwrap();
    assert_eq!((&*with_bom.text, with_bom.bom, with_bom.owner), ("a\r\nb", true, Owner::Disk));
    assert_eq!(with_bom.version.hash, crate::ContentHash::of("\u{feff}a\r\nb".as_bytes()));
    assert!(with_bom.uri.starts_with("file:///") && with_bom.uri.ends_with("/bom.py"));
    assert_eq!(&*document("empty.py").unwrap().text, "");
    assert!(matches!(document("latin"), Err(ReadError::NotUtf8 { offset: 2, .. })));
    assert!(matches!(document("big"), Err(ReadError::TooLarge { bytes, limit, .. }) if bytes == limit + 1));
    for path in ["pipe", "directory"] {
        assert!(matches!(document(path), Err(ReadError::NotAFile { .. })), "{path}");
    }
    for path in ["missing", "empty.py/below"] {
        assert!(matches!(document(path), Err(ReadError::NotFound { .. })), "{path}");
    }
    let entries = fixture.workspace.list(fixture.workspace.root()).unwrap();
    let kinds: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind, entry.size)).collect();
    assert_eq!(
        kinds[1..4],
        [
            ("bom.py", EntryKind::File, 7),
            ("directory", EntryKind::Directory, 0),
            ("empty.py", EntryKind::File, 0)
        ]
    );
    assert_eq!(kinds[5], ("pipe", EntryKind::Other, 0));
}

#[test]
fn a_root_must_be_a_directory_and_names_its_state() {
    let fixture = Fixture::new(&[("a.py", "x")]);
    let open = |path: &Path| Workspace::open(path, &state(fixture.directory.as_path()), None);
    assert!(matches!(open(&fixture.directory.as_path().join("root/a.py")), Err(OpenError::Root { .. })));
    assert!(matches!(open(&fixture.directory.as_path().join("none")), Err(OpenError::Root { .. })));
    symlink("root", fixture.directory.as_path().join("link")).unwrap();
    let (same, notes) = open(&fixture.directory.as_path().join("link")).unwrap();
    assert_eq!((same.root(), same.id()), (fixture.workspace.root(), fixture.workspace.id()));
    assert!(notes.is_empty() && same.id().len() == 16);
    assert!(!fixture.directory.as_path().join("state").exists(), "opening writes nothing");
}

#[test]
fn the_editors_text_wins_for_open_files() {
    struct One(Workspace);
    impl Editor for One {
        fn documents(&self) -> Vec<crate::Document> {
            Vec::new()
        }
        fn document(&self, path: &AbsPath) -> Option<crate::Document> {
            let mut document = self.0.document(path).ok().filter(|it| it.path.file_name() == "open.py")?;
            document.text = "unsaved".into();
            document.version = Version { hash: crate::ContentHash::of(b"unsaved"), editor: Some(3) };
            document.owner = Owner::Editor { dirty: true };
            Some(document)
        }
        fn apply<'a>(
            &'a self,
            _: &'a crate::RunId,
            _: &'a [crate::FileChange],
        ) -> futures_util::future::BoxFuture<'a, Vec<crate::ApplyOutcome>> {
            unreachable!("nothing is committed")
        }
        fn revert<'a>(
            &'a self,
            _: &'a crate::RunId,
            _: &'a [crate::FileChange],
        ) -> futures_util::future::BoxFuture<'a, Vec<crate::ApplyOutcome>> {
            unreachable!("nothing is committed")
        }
    }
    let fixture = Fixture::new(&[("open.py", "saved"), ("closed.py", "saved")]);
    let editor = std::sync::Arc::new(One(fixture.workspace.clone()));
    let root = fixture.workspace.root().as_path();
    let workspace = Workspace::open(root, &state(fixture.directory.as_path()), Some(editor)).unwrap().0;
    assert_eq!(&*workspace.document(&fixture.path("open.py")).unwrap().text, "unsaved");
    assert_eq!(&*workspace.document(&fixture.path("closed.py")).unwrap().text, "saved");
}
