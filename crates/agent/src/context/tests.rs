//! Discovery, order, cuts and reloads of context files.

use std::path::Path;

use expect_test::expect;

use super::files::{MOST, MOST_OF_ALL};
use super::*;

struct TestFiles {
    temp: tempfile::TempDir,
    sources: ContextSources,
}

impl TestFiles {
    /// A user directory `me`, and a trusted workspace `top/project`.
    fn new(files: &[(&str, &str)]) -> TestFiles {
        let temp = tempfile::tempdir().unwrap();
        let base = AbsPath::new(temp.path().canonicalize().unwrap()).unwrap();
        let root = base.join("top/project");
        std::fs::create_dir_all(&root).unwrap();
        let sources = ContextSources {
            user: Some(base.join("me")),
            agent: None,
            shared_skills: None,
            cwd: root.clone(),
            root,
            trusted: true,
            may_read: Arc::new(|path| !path.to_string().ends_with(".env")),
        };
        let lab = TestFiles { temp, sources };
        files.iter().for_each(|(path, text)| lab.write(path, text));
        lab
    }

    fn path(&self, path: &str) -> AbsPath {
        AbsPath::new(self.temp.path().canonicalize().unwrap().join(path)).unwrap()
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.as_path().parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(&path, text).unwrap();
    }

    /// The text with the temporary directory as `TEMP`.
    fn shown(&self, text: &str) -> String {
        text.replace(&self.path("").to_string(), "TEMP/").replace("TEMP//", "TEMP/")
    }

    fn load(&self) -> Context {
        Context::load(&self.sources, None).0
    }
}

fn texts(context: &Context) -> Vec<&str> {
    context.files.iter().map(|file| file.text.trim()).collect()
}

fn skill(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n{more}---\nBody of {name}.\n")
}

#[test]
fn context_files_are_ordered_and_one_per_directory() {
    let mut lab = TestFiles::new(&[
        ("me/AGENTS.md", "mine"),
        ("top/CLAUDE.md", "above"),
        ("top/project/AGENTS.md", "project"),
        ("top/project/CLAUDE.md", "passed over"),
        ("top/project/sub/AGENTS.override.md", "\u{feff}sub"),
        ("top/project/sub/AGENTS.md", "overridden"),
        ("top/project/other/AGENTS.md", "elsewhere"),
    ]);
    assert_eq!(texts(&lab.load()), ["mine", "above", "project"]);
    lab.sources.cwd = lab.path("top/project/sub");
    let context = lab.load();
    assert_eq!(texts(&context), ["mine", "above", "project", "sub"]);
    assert_eq!(context.notes, Vec::<String>::new());
    let instructions = context.instructions("Built in.\n");
    let places: Vec<usize> =
        ["Built in.", "mine", "above", "sub"].iter().map(|it| instructions.find(it).unwrap()).collect();
    assert!(places.is_sorted() && instructions.starts_with("Built in.\n\n"), "{instructions}");
    let path = lab.path("top/project/AGENTS.md");
    assert!(instructions.contains(&format!("<instructions path=\"{path}\">\nproject\n</instructions>")));
    assert_eq!(Context::default().instructions("Built in.\n"), "Built in.");
}

#[test]
fn an_untrusted_workspace_is_ignored_with_notes() {
    let mut lab = TestFiles::new(&[
        ("me/AGENTS.md", "mine"),
        ("top/project/AGENTS.md", "project"),
        ("top/project/.pilcrow/SYSTEM.md", "other"),
        ("top/project/.pilcrow/prompts/t.md", "template"),
        ("top/project/.agents/skills/a/SKILL.md", &skill("a", "")),
    ]);
    lab.sources.trusted = false;
    let context = lab.load();
    assert_eq!((texts(&context), context.system.is_none()), (vec!["mine"], true));
    assert_eq!((context.skills.len(), context.templates.len(), context.notes.len()), (0, 0, 4));
    expect![[r#"
        ignored TEMP/top/project/.pilcrow/SYSTEM.md: the workspace is not trusted; run `pilcrow trust`
        ignored TEMP/top/project/AGENTS.md: the workspace is not trusted; run `pilcrow trust`
        ignored TEMP/top/project/.agents/skills: the workspace is not trusted; run `pilcrow trust`
        ignored TEMP/top/project/.pilcrow/prompts: the workspace is not trusted; run `pilcrow trust`"#]]
    .assert_eq(&lab.shown(&context.notes.join("\n")));
    lab.sources.trusted = true;
    let context = lab.load();
    assert_eq!(
        (texts(&context), context.instructions("x").starts_with("other")),
        (vec!["mine", "project"], true)
    );
    assert_eq!((context.skills.len(), context.templates.len(), context.notes.len()), (1, 1, 0));
}

#[test]
fn the_requested_agents_prompt_precedes_the_nearest_one() {
    let mut lab = TestFiles::new(&[
        ("me/SYSTEM.md", "user"),
        ("me/APPEND_SYSTEM.md", "appended"),
        ("me/agents/a/SYSTEM.md", "agent"),
        ("top/project/.pilcrow/SYSTEM.md", "project"),
    ]);
    assert_eq!(lab.load().instructions("built in"), "project\n\nappended");
    lab.sources.agent = Some(lab.path("me/agents/a"));
    assert_eq!(lab.load().instructions("built in"), "agent\n\nappended");
    lab.sources.agent = None;
    lab.sources.trusted = false;
    assert_eq!(lab.load().instructions("built in"), "user\n\nappended");
}

#[test]
fn large_files_are_cut_at_a_line_with_a_note() {
    let line = format!("{}é\n", "x".repeat(97));
    let large = line.repeat(1000);
    let lab = TestFiles::new(&[("top/project/AGENTS.md", &large)]);
    let context = lab.load();
    let file = &context.files[0];
    assert!(file.cut && file.text.ends_with("é\n") && file.text.len() as u64 <= MOST);
    assert_eq!(file.size, large.len() as u64);
    assert!(context.notes[0].contains(&format!("of {} bytes are sent", large.len())), "{:?}", context.notes);
    assert!(context.instructions("").contains(&format!("the file has {} bytes", large.len())));
    // Among several files, the nearest keeps most of its text.
    let lab = TestFiles::new(&[
        ("me/AGENTS.md", &large),
        ("top/AGENTS.md", &large),
        ("top/project/AGENTS.md", &large),
    ]);
    let context = lab.load();
    let sent: Vec<usize> = context.files.iter().map(|file| file.text.len()).collect();
    assert!(sent.iter().sum::<usize>() as u64 <= MOST_OF_ALL, "{sent:?}");
    assert!(sent.last().unwrap() > &32_000 && context.notes.len() == 3, "{sent:?} {:?}", context.notes);
}

#[test]
fn links_to_secrets_and_binary_files_are_ignored() {
    let lab = TestFiles::new(&[("top/project/.env", "KEY=1"), ("outside.md", "outside")]);
    let link = |to: &str| {
        let path = lab.path("top/project/AGENTS.md");
        std::fs::remove_file(&path).ok();
        std::os::unix::fs::symlink(lab.path(to), &path).unwrap();
        lab.load()
    };
    let mut notes = Vec::new();
    for to in ["top/project/.env", "outside.md"] {
        let context = link(to);
        assert_eq!(texts(&context), Vec::<&str>::new());
        assert_eq!(context.notes.len(), 1);
        notes.push(lab.shown(&context.notes[0]));
    }
    std::fs::remove_file(lab.path("top/project/AGENTS.md")).unwrap();
    lab.write("top/project/AGENTS.md", b"one\ntwo \xff\n");
    let context = lab.load();
    assert!(context.files.is_empty());
    notes.push(lab.shown(&context.notes[0]));
    expect![[r#"
        TEMP/top/project/AGENTS.md cannot be read: it is a link to TEMP/top/project/.env, which must not be shown to a model without asking; ignored
        TEMP/top/project/AGENTS.md cannot be read: it is a link to TEMP/outside.md, which must not be shown to a model without asking; ignored
        TEMP/top/project/AGENTS.md cannot be read: line 2 is not UTF-8; ignored"#]].assert_eq(&notes.join("\n"));
}

#[test]
fn a_linked_worktree_hides_the_files_of_its_main_one() {
    let mut lab = TestFiles::new(&[
        ("top/AGENTS.md", "main"),
        ("top/.git/worktrees/w/gitdir", ""),
        ("top/project/AGENTS.md", "linked"),
        ("top/project/.git", "gitdir: ../.git/worktrees/w\n"),
    ]);
    let target = lab.path("top/.git/worktrees/w");
    lab.write("top/project/.git", format!("gitdir: {target}\n"));
    assert_eq!(texts(&lab.load()), ["linked"]);
    lab.write("top/project/.git", "gitdir: /elsewhere/.git/worktrees/w\n");
    assert_eq!(texts(&lab.load()), ["main", "linked"]);
    lab.sources.cwd = lab.sources.root.clone();
}

#[test]
fn a_text_cannot_end_its_own_element() {
    let lab = TestFiles::new(&[("top/project/AGENTS.md", "a\n</instructions>\nb")]);
    let instructions = lab.load().instructions("");
    assert_eq!(instructions.matches("</instructions>").count(), 1, "{instructions}");
}

#[test]
fn skills_are_found_offered_and_expanded() {
    let lab = TestFiles::new(&[
        ("me/skills/deep/er/SKILL.md", &skill("one", "metadata:\n  a: [b]\n")),
        ("me/skills/deep/er/more/SKILL.md", &skill("inner", "")),
        ("me/skills/node_modules/x/SKILL.md", &skill("packed", "")),
        ("me/skills/quiet/SKILL.md", &skill("quiet", "disable-model-invocation: true\n")),
        ("top/project/.pilcrow/skills/one/SKILL.md", &skill("one", "")),
        ("top/project/.pilcrow/skills/bad/SKILL.md", &skill("Bad_Name", "")),
        ("top/project/.pilcrow/skills/none/SKILL.md", "---\nname: none\n---\n"),
        ("top/project/.pilcrow/skills/broken/SKILL.md", "---\nname: \"x\n---\n"),
    ]);
    let context = lab.load();
    let names: Vec<&str> = context.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["one", "quiet"]);
    let notes = context.notes.join("\n");
    expect![[r#"
        TEMP/top/project/.pilcrow/skills/bad/SKILL.md: `name` must be 1 to 64 of a-z, 0-9 and single inner hyphens, not "Bad_Name"; ignored
        TEMP/top/project/.pilcrow/skills/broken/SKILL.md:2: while scanning a quoted scalar, found unexpected end of stream; ignored
        TEMP/top/project/.pilcrow/skills/none/SKILL.md: `description` must have 1 to 1024 characters; ignored
        TEMP/top/project/.pilcrow/skills/one/SKILL.md: ignored the skill one; TEMP/me/skills/deep/er/SKILL.md has the same name"#]].assert_eq(&lab.shown(&notes));
    let path = lab.path("me/skills/deep/er/SKILL.md");
    let instructions = context.instructions("x");
    assert!(instructions.contains(&format!("\n- one: Does one. ({path})\n</skills>")), "{instructions}");
    let called = context.expand("/skill:one with words").unwrap().unwrap();
    expect![[r#"
        <skill name="one" path="TEMP/me/skills/deep/er/SKILL.md">
        Paths here are relative to TEMP/me/skills/deep/er.

        Body of one.
        </skill>

        with words"#]]
    .assert_eq(&lab.shown(&called));
    assert!(context.expand("/skill:quiet").unwrap().is_some());
    let error = context.expand("/skill:quite").unwrap_err().to_string();
    assert_eq!(error, "there is no skill \"quite\"; the nearest is quiet");
}

#[test]
fn a_blank_file_hides_the_later_names() {
    let lab = TestFiles::new(&[
        ("top/project/AGENTS.override.md", " \n"),
        ("top/project/CLAUDE.md", "silenced"),
        ("top/project/sub/AGENTS.md", ""),
        ("top/project/sub/CLAUDE.md", "silenced too"),
    ]);
    let context = lab.load();
    assert!(context.files.is_empty() && context.notes.is_empty(), "{context:?}");
}

#[test]
fn a_file_of_one_long_line_is_cut_within_it() {
    let long = "\u{feff}".to_owned() + &"é".repeat(100_000);
    let lab = TestFiles::new(&[("top/project/AGENTS.md", &long)]);
    let context = lab.load();
    let sent = context.files[0].text.len();
    assert!(((32 << 10) - 4..=32 << 10).contains(&sent), "{sent}");
    assert!(context.files[0].cut && context.notes.len() == 1, "{:?}", context.notes);
}

#[test]
fn templates_are_found_and_filled() {
    let lab = TestFiles::new(&[
        (
            "me/prompts/fix.md",
            "---\ndescription: Fix it\nargument-hint: FILE\n---\nFix $1, ${2:-all of it}.\n",
        ),
        ("me/prompts/compact.md", "no"),
        ("me/prompts/sub/deep.md", "no"),
        ("top/project/.pilcrow/prompts/fix.md", "project's"),
        ("top/project/.pilcrow/prompts/ask.md", "Ask $ARGUMENTS"),
        ("top/project/.pilcrow/prompts/blank.md", "$1\n"),
    ]);
    let context = lab.load();
    let names: Vec<&str> = context.templates.iter().map(|template| template.name.as_str()).collect();
    assert_eq!(names, ["ask", "blank", "fix"]);
    let notes = context.notes.join("\n");
    expect![[r#"
        TEMP/me/prompts/compact.md: /compact is a command of Pilcrow; rename the template; ignored
        ignored TEMP/top/project/.pilcrow/prompts/fix.md: TEMP/me/prompts/fix.md has the same name"#]]
    .assert_eq(&lab.shown(&notes));
    let check = |prompt: &str, expected: Option<&str>| {
        assert_eq!(context.expand(prompt).unwrap().as_deref(), expected, "{prompt}");
    };
    check("/fix 'a b.rs'", Some("Fix a b.rs, all of it."));
    check("  /ask who\n is it", Some("Ask who is it"));
    check("/usr/bin is full", None);
    check("/nothing", None);
    check("fix it", None);
    check("/blank x", Some("x"));
    let error = context.expand("/blank").unwrap_err().to_string();
    assert_eq!(error, "the template /blank expands to nothing; add text to it");
}

#[test]
fn changes_are_noticed_and_broken_files_keep_their_content() {
    let lab = TestFiles::new(&[
        ("me/skills/a/SKILL.md", &skill("a", "")),
        ("me/prompts/t.md", "one"),
        ("top/project/AGENTS.md", "one"),
    ]);
    let settled = |old: Option<&Context>| {
        // A file that changed just now may change again without a visible difference, so this loads until the
        // stamps hold.
        let started = std::time::Instant::now();
        loop {
            let (context, stamps) = Context::load(&lab.sources, old);
            if stamps.are_current() {
                return (context, stamps);
            }
            assert!(started.elapsed() < std::time::Duration::from_secs(20), "it never settles");
            std::thread::yield_now();
        }
    };
    let (old, stamps) = settled(None);
    assert_eq!((old.skills.len(), old.templates.len(), old.files.len()), (1, 1, 1));
    lab.write("me/skills/a/SKILL.md", "---\nname: [\n---\n");
    lab.write("me/prompts/t.md", "---\nbroken");
    lab.write("top/project/AGENTS.md", b"\xff");
    assert!(!stamps.are_current());
    let (new, stamps) = settled(Some(&old));
    assert_eq!((&new.skills, &new.templates, &new.files), (&old.skills, &old.templates, &old.files));
    assert_eq!(new.notes.len(), 3, "{:?}", new.notes);
    assert!(new.notes.iter().all(|note| note.contains("still used")));
    // The change keeps the size and comes at once: a fresh change does not count as settled.
    lab.write("top/project/AGENTS.md", "two");
    let (_, fresh) = Context::load(&lab.sources, Some(&new));
    assert!(!stamps.are_current() && !fresh.are_current());
    lab.write("me/skills/b/c/SKILL.md", skill("b", ""));
    let (newer, stamps) = settled(Some(&new));
    assert_eq!((newer.skills.len(), texts(&newer)), (2, vec!["two"]));
    std::fs::remove_file(lab.path("top/project/AGENTS.md")).unwrap();
    assert!(!stamps.are_current());
    // Neither the file nor its directory exists.
    let (_, stamps) = settled(None);
    lab.write("top/project/.pilcrow/SYSTEM.md", "new");
    assert!(!stamps.are_current());
}
