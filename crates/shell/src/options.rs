//! Options by which programs that are otherwise harmless write files or run code.

/// Programs with such options.
const OPTIONS: &[(&str, &[&str])] = &[
    ("cargo", &["--config"]),
    ("curl", &["-K", "-O", "-o", "--config", "--output", "--output-dir", "--remote-name"]),
    ("fd", &["-X", "-x", "--exec", "--exec-batch"]),
    ("find", &["-delete", "-fls", "-fprint", "-fprint0", "-fprintf"]),
    ("gcc", &["-B", "-fplugin", "-wrapper"]),
    (
        "git",
        &[
            "-O",
            "--config-env",
            "--exec",
            "--exec-path",
            "--ext-diff",
            "--open-files-in-pager",
            "--output",
            "--receive-pack",
            "--upload-pack",
        ],
    ),
    ("go", &["-exec", "-toolexec", "-vettool"]),
    ("docker", &["--config"]),
    ("helm", &["--kubeconfig", "--post-renderer"]),
    ("kubectl", &["--kubeconfig"]),
    ("less", &["-O", "-o", "--log-file"]),
    ("make", &["--eval"]),
    ("man", &["-H", "-P", "--html", "--pager"]),
    ("npm", &["--script-shell"]),
    ("npx", &["-c", "--call"]),
    ("psql", &["-f", "--file"]),
    ("pytest", &["-c", "-o", "-p", "--override-ini", "--rootdir"]),
    ("rg", &["--hostname-bin", "--pre"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-F", "-S", "-o"]),
    ("sftp", &["-F", "-S", "-o"]),
    ("sort", &["-o", "--compress-program", "--output"]),
    ("ssh", &["-F", "-o"]),
    ("strace", &["-o", "--output"]),
    (
        "tar",
        &[
            "-F",
            "-I",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ],
    ),
    ("time", &["-o", "--output"]),
    ("wget", &["-O", "-P", "--directory-prefix", "--output-document", "--use-askpass"]),
    ("zip", &["-TT", "--unzip-command"]),
];

/// Options of git before its subcommand.
const BEFORE: &[&str] = &["-c"];

/// The option of a command that writes a file or runs code, as spelled there.
///
/// A rule that allows the program without naming the option does not mean it.
pub fn acting_option(words: &[String]) -> Option<&str> {
    let (program, args) = words.split_first()?;
    let name = program.rsplit('/').next().unwrap_or_default();
    let (_, options) = OPTIONS.iter().find(|(known, _)| *known == name)?;
    let words = args.iter().map(String::as_str).take_while(|word| *word != "--");
    let before = words.clone().take_while(|word| word.starts_with('-'));
    let acts = |word: &str, option: &str| match word.strip_prefix(option) {
        Some(rest) if option.starts_with("--") => rest.is_empty() || rest.starts_with('='),
        // The value of a letter may follow at once; a word after one hyphen is whole.
        Some(rest) => rest.is_empty() || option.len() == 2 || rest.starts_with('='),
        None if has_letter(word, option) => name != "gcc",
        // Long options may be abbreviated.
        None => {
            word.len() > 4
                && word.starts_with("--")
                && option.starts_with(word.split('=').next().unwrap_or(word))
        }
    };
    let before = before.filter(|word| name == "git" && BEFORE.contains(word));
    before.chain(words.filter(|word| options.iter().any(|option| acts(word, option)))).next()
}

/// Whether `word` combines letters, as `-qo`, and one of them is that of `option`.
///
/// The letters may also be the value of another one.
pub(crate) fn has_letter(word: &str, option: &str) -> bool {
    let letters = |word: &str| Some(word.strip_prefix('-')?.to_owned()).filter(|it| !it.starts_with('-'));
    let (Some(all), Some(letter)) = (letters(word), letters(option)) else { return false };
    let all = all.chars().take_while(char::is_ascii_alphabetic).collect::<String>();
    letter.len() == 1 && all.contains(&letter)
}
