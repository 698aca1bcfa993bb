//! The kept file list and words, compared with walks and texts without them.

use std::time::{Duration, Instant};

use super::*;
use crate::documents::stamp::Stamp;

impl Fixture {
    fn listed(&self) -> Vec<String> {
        self.workspace.files(self.workspace.root()).map(|path| self.workspace.relative(&path)).collect()
    }

    /// Lists the files of a workspace that has scanned nothing yet.
    fn walked(&self) -> Vec<String> {
        let other = open(&self.directory);
        other.files(other.root()).map(|path| other.relative(&path)).collect()
    }

    /// Waits until the timestamps of all files are old enough to show a change.
    fn settle(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let is_settled = |path: &Path| Stamp::of(path).holds(path);
        let root = self.directory.join("root");
        while !ignore::Walk::new(&root).flatten().all(|entry| is_settled(entry.path())) {
            assert!(Instant::now() < deadline, "the files do not settle");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn the_cached_list_follows_every_change() {
    let fixture = Fixture::new(&[("a.rs", "one"), ("src/b.rs", "two"), ("src/deep/c.rs", "three")]);
    let root = fixture.directory.join("root");
    let changes: [&dyn Fn(); 7] = [
        &|| write(&root.join("src/new.rs"), "four"),
        &|| std::fs::remove_file(root.join("a.rs")).unwrap(),
        &|| write(&root.join(".gitignore"), "deep/\n"),
        &|| write(&root.join(".gitignore"), "b.rs\n"),
        &|| std::fs::rename(root.join("src/deep"), root.join("moved")).unwrap(),
        &|| write(&root.join("moved/.ignore"), "c.rs\n"),
        &|| std::fs::remove_file(root.join("moved/.ignore")).unwrap(),
    ];
    for (index, change) in changes.iter().enumerate() {
        // Compare once with a list that is old enough to be used, and once right after the previous change.
        if index % 2 == 0 {
            fixture.settle();
            fixture.listed();
        }
        assert_eq!(fixture.listed(), fixture.walked(), "before change {index}");
        change();
        assert_eq!(fixture.listed(), fixture.walked(), "after change {index}");
    }
}

#[test]
fn words_are_those_of_the_current_text() {
    let fixture = Fixture::new(&[("a.rs", "let read_config = old::path;"), ("large.rs", "")]);
    let path = fixture.path("a.rs");
    let may_hold = |path: &AbsPath, word: &str| fixture.workspace.word_filter(word).may_be_in(path);
    let holds = |word: &str| may_hold(&path, word);
    for _ in 0..2 {
        assert!(holds("read_config") && holds("old::path") && holds("path"));
        assert!(!holds("config") && !holds("read_confi") && !holds("new"));
        fixture.settle();
    }
    write(path.as_path(), "let new_config = old::path;");
    assert!(holds("new_config") && !holds("read_config"));
    // The file is too large to index, so that it may hold every word.
    let large = fixture.path("large.rs");
    write(large.as_path(), "word ".repeat(1 << 18).as_str());
    assert!(may_hold(&large, "anything"));
    std::fs::write(large.as_path(), b"\xff\xfe").unwrap();
    assert!(may_hold(&large, "anything"));
}

#[test]
fn a_watched_index_follows_every_change() {
    let fixture = Fixture::new(&[("src/a.rs", "one"), ("src/b.rs", "two")]);
    let path = fixture.path("src/a.rs");
    let holds = |word: &str| fixture.workspace.word_filter(word).may_be_in(&path);
    fixture.settle();
    // The first list watches the directories, the second is current.
    for _ in 0..3 {
        fixture.listed();
        assert!(holds("one") && !holds("new"));
    }
    let stamp = Stamp::of(path.as_path());
    let modified = std::fs::metadata(path.as_path()).unwrap().modified().unwrap();
    // As long, and with the same time of change of the text.
    std::fs::write(path.as_path(), "new").unwrap();
    std::fs::File::options().append(true).open(path.as_path()).unwrap().set_modified(modified).unwrap();
    assert!(holds("new") && !holds("one"));
    assert_ne!(stamp, Stamp::of(path.as_path()));
    std::fs::rename(path.as_path(), fixture.path("src/c.rs").as_path()).unwrap();
    for _ in 0..3 {
        assert_eq!(fixture.listed(), ["src/b.rs", "src/c.rs"]);
    }
}
