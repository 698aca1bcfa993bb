//! Typing and edits of an agent at the same time, in real Neovim.
//!
//! User and agent work on different lines, so that every order has the same outcome; the lines are neighbours
//! more often than not, and new lines shift everything below. The model reads once and makes each of its
//! edits by the line numbers of that reading, however old it is.
//!
//! The final text must equal the sequential model's, so nothing is lost, duplicated or misplaced, and nothing
//! is saved. An edit may fail for two reasons only: the user typed while it was in flight, twice in a row,
//! and the retry succeeds; or the store dropped the version that was read, and one new read makes it succeed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use testing::model::{ModelServer, Received, Reply, Step};
use tests::Sandbox;
use tests::editors::neovim::Setup;
use tests::editors::{Neovim, alone};

const SEEDS: u64 = 30;
const LINES: usize = 24;
/// Maximum number of edits that the user overtakes, in one play.
const MAX_OVERTAKEN: usize = 20;

/// One change to one line of the original text.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    Append(String),
    Below(String),
    Replace(String),
    Delete,
}

/// One interleaving of keys and edits.
struct Play {
    /// Keys, some of them in insert mode, with a pause before each.
    keys: Vec<(Duration, String)>,
    /// The agent's edits, with the lines of the original text.
    edits: Vec<(usize, Op)>,
    /// Time that the agent thinks before each answer.
    pauses: Vec<Duration>,
    before: Vec<String>,
    after: Vec<String>,
}

/// SplitMix64, which gives the same numbers for the same seed everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn play(seed: u64) -> Play {
    let mut random = Random(seed);
    let before: Vec<String> = (0..LINES).map(|line| format!("line {line:02} é😀")).collect();
    let mut ops: Vec<Vec<Op>> = vec![Vec::new(); LINES];
    let mut keys = Vec::new();
    let mut edits = Vec::new();
    let mut order: Vec<usize> = (0..LINES).collect();
    for at in (1..LINES).rev() {
        let other = usize::try_from(random.below(at as u64 + 1)).unwrap();
        order.swap(at, other);
    }
    let agents = 3 + usize::try_from(random.below(4)).unwrap();
    let typed = 4 + usize::try_from(random.below(6)).unwrap();
    for &line in &order[..agents] {
        // An insertion depends on the lines on both its sides.
        let alone = line + 1 < LINES && !order[..agents + typed].contains(&(line + 1));
        let op = match random.below(if alone { 3 } else { 2 }) {
            0 => Op::Replace(format!("agent {line:02} 𝒳")),
            1 => Op::Delete,
            _ => Op::Below(format!("agent below {line:02}")),
        };
        ops[line].push(op.clone());
        edits.push((line, op));
    }
    for &line in &order[agents..agents + typed] {
        let find = format!("gg/line {line:02}<CR>");
        let (op, how, text) = match random.below(3) {
            0 => (Op::Append(format!(" typed {line:02} ß")), "A", format!(" typed {line:02} ß")),
            1 => (Op::Below(format!("typed below {line:02}")), "o", format!("typed below {line:02}")),
            _ => (Op::Replace(format!("typed over {line:02}")), "cc", format!("typed over {line:02}")),
        };
        ops[line].push(op);
        // The keys are sent in pieces, so that edits arrive while the user is in insert mode.
        let cut =
            text.char_indices().map(|(at, _)| at).nth(4 + usize::try_from(random.below(6)).unwrap()).unwrap();
        let mut pause = || Duration::from_millis(random.below(80));
        keys.push((pause(), format!("{find}{how}{}", &text[..cut])));
        keys.push((pause(), format!("{}<Esc>", &text[cut..])));
    }
    let pauses = (0..2 * agents + 2).map(|_| Duration::from_millis(random.below(250))).collect();
    let mut after = Vec::new();
    for (line, ops) in before.iter().zip(&ops) {
        let mut own = Some(line.clone());
        let mut below = Vec::new();
        for op in ops {
            match op {
                Op::Append(text) => own = own.map(|own| own + text),
                Op::Replace(text) => own = Some(text.clone()),
                Op::Delete => own = None,
                Op::Below(text) => below.push(text.clone()),
            }
        }
        after.extend(own.into_iter().chain(below));
    }
    Play { keys, edits, pauses, before, after }
}

/// The agent's side: the model's answers, one per request.
#[derive(Default)]
struct Agent {
    file: String,
    edits: VecDeque<(usize, Op)>,
    /// The last text that the model read.
    reading: Option<String>,
    asked: Asked,
    /// Edits refused because the store dropped their version.
    refused: usize,
    /// Number of edits that the user overtook.
    overtaken: usize,
    /// The first violation, for the failure message.
    wrong: Option<String>,
    done: String,
    /// Pauses before its answers, in order.
    pauses: VecDeque<Duration>,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Asked {
    #[default]
    Nothing,
    Reading,
    /// An edit, and whether the model read the text again for it.
    Edit {
        reread: bool,
    },
}

impl Agent {
    fn answer(&mut self, request: &Received) -> Reply {
        let pause = self.pauses.pop_front().unwrap_or_default();
        self.say(request).before_headers([Step::Wait(pause)])
    }

    fn say(&mut self, request: &Received) -> Reply {
        let messages = request.body["messages"].as_array();
        let last = messages.and_then(|all| all.last()).cloned().unwrap_or_default();
        let said = last["content"].as_str().unwrap_or_default().to_owned();
        match self.asked {
            Asked::Nothing => {}
            Asked::Reading => {
                let reread = self.reading.replace(said).is_some();
                return self.edit(reread);
            }
            Asked::Edit { reread } => {
                if said.starts_with('[') {
                    self.edits.pop_front();
                    if !self.edits.is_empty() {
                        return self.edit(false);
                    }
                    self.asked = Asked::Nothing;
                    return Reply::text(&self.done);
                }
                if said.contains("did not apply the edit") && self.overtaken < MAX_OVERTAKEN {
                    self.overtaken += 1;
                    return self.edit(reread);
                }
                // A stored text could have been mapped; no other reason may refuse the edit.
                if reread || !said.contains("no text with tag") && !said.contains("no longer") {
                    self.wrong =
                        Some(format!("{:?} is refused, reread: {reread}: {said}", self.edits.front()));
                    self.asked = Asked::Nothing;
                    return Reply::text(&self.done);
                }
                self.refused += 1;
            }
        }
        self.asked = Asked::Reading;
        Reply::call("read", "read", &serde_json::json!({"path": self.file}))
    }

    /// The next edit, by the line numbers of the last read.
    fn edit(&mut self, reread: bool) -> Reply {
        let reading = self.reading.as_deref().unwrap_or_default();
        let (line, op) = self.edits.front().expect("an edit remains");
        let header = reading.lines().next().unwrap_or_default();
        let row = reading.lines().find(|row| row.contains(&format!("line {line:02} é😀")));
        let number: String = row.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
        let operation = match op {
            Op::Replace(text) => format!("PUT {number}:\n+{text}"),
            Op::Delete => format!("CUT {number}"),
            Op::Below(text) => format!("PUT >{number}:\n+{text}"),
            Op::Append(_) => unreachable!("the agent edits whole lines"),
        };
        self.asked = Asked::Edit { reread };
        Reply::call("edit", "edit", &serde_json::json!({"patch": format!("{header}\n{operation}\n")}))
    }
}

/// Installs a model in the sandbox that sends requests to this server.
fn install(sandbox: &mut Sandbox, server: &ModelServer) {
    let config = format!(
        "hashline.line_checks = false\npolicy.mode = \"permissive\"\nmodel.default = \"local/agent\"\n\
         [providers.local]\nbase_url = \"{}\"\napi_key_env = \"AGENT_KEY\"\n",
        server.base_url()
    );
    let directory = sandbox.home().join("config");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), config).unwrap();
    sandbox.variables.insert("AGENT_KEY".to_owned(), "none".to_owned());
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn thirty_interleavings_of_typing_and_edits_converge() {
    let _alone = alone();
    let agent = Arc::new(Mutex::new(Agent::default()));
    let lock = || agent.lock();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mind = {
        let agent = Arc::clone(&agent);
        move |request: &Received| agent.lock().answer(request)
    };
    let server = runtime.block_on(ModelServer::answering(mind)).unwrap();
    let mut sandbox = Sandbox::new();
    install(&mut sandbox, &server);
    sandbox.make_repository();
    sandbox.write("start.txt", "start\n");
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["start.txt"]);
    let base = std::env::var("INTERLEAVING_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = base.map_or(1..=SEEDS, |seed| seed..=seed);
    let (mut refused, mut overtaken) = (0, 0);
    for seed in seeds {
        eprintln!("seed {seed} (INTERLEAVING_SEED={seed} plays it alone)");
        let play = play(seed);
        let file = format!("play-{seed}.txt");
        let before = play.before.join("\n") + "\n";
        sandbox.write(&file, &before);
        let done = format!("finished {seed}");
        *lock() = Agent {
            file: file.clone(),
            edits: play.edits.clone().into(),
            pauses: play.pauses.clone().into(),
            done: done.clone(),
            ..Agent::default()
        };
        neovim.keys(&format!(":edit {file}<CR>"));
        neovim.wait_lua(
            "the server knows the file",
            "return #vim.lsp.get_clients({ name = 'pilcrow', bufnr = 0 }) == 1",
        );
        neovim.lua("require('pilcrow').prompt('go'); return true");
        for (pause, keys) in &play.keys {
            // The pause is the random input of this test, not a wait for a condition.
            std::thread::sleep(*pause);
            neovim.keys(keys);
        }
        let wanted = play.after.join("\n");
        neovim.wait_lua(
            "the run ends",
            &format!("return vim.fn.execute('messages'):find('{done}') ~= nil or vim.fn.bufnr('pilcrow://answer') ~= -1 and table.concat(vim.fn.getbufline('pilcrow://answer', 1, '$'), '\\n'):find('{done}') ~= nil"),
        );
        assert_eq!(lock().wrong, None, "seed {seed}\n{}", neovim.messages());
        refused += lock().refused;
        overtaken += lock().overtaken;
        neovim.wait_text(&file, &format!("seed {seed}, wanted:\n{wanted}\n"), |text| text == wanted);
        assert_eq!(sandbox.read(&file), before, "seed {seed}: something was saved");
        neovim.keys(":bdelete! | messages clear<CR>");
        neovim.wait_lua("the next file can come", "return vim.fn.execute('messages') == ''");
    }
    eprintln!("{refused} edits had to be read for again, {overtaken} were made again");
}
