//! Typing and edits of an agent at the same time, in real Neovim: whatever comes between what, the
//! final text is that of doing all of it in turn.
//!
//! Person and agent work on different lines, so that every order has the same outcome; the lines they
//! work on are neighbours more often than not, and new lines shift everything below.

use std::time::Duration;

use tests::editors::neovim::Setup;
use tests::editors::{Model, Neovim, alone};
use tests::{Sandbox, in_editors};

const SEEDS: u64 = 30;
const LINES: usize = 24;

/// What is done to one line of the original text.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    Append(String),
    Below(String),
    Replace(String),
    Delete,
}

/// The whole of one interleaving.
struct Play {
    /// Keys, some of them in the middle of inserting, with a pause before each.
    keys: Vec<(Duration, String)>,
    /// Operations of patches.
    patches: Vec<String>,
    before: Vec<String>,
    after: Vec<String>,
}

/// SplitMix64: the same numbers for the same seed, everywhere.
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
    let mut patches = Vec::new();
    let mut order: Vec<usize> = (0..LINES).collect();
    for at in (1..LINES).rev() {
        let other = usize::try_from(random.below(at as u64 + 1)).unwrap();
        order.swap(at, other);
    }
    let agents = 3 + usize::try_from(random.below(4)).unwrap();
    let persons = 4 + usize::try_from(random.below(6)).unwrap();
    for &line in &order[..agents] {
        let number = line + 1;
        // An insertion holds on to the lines on both its sides.
        let alone = line + 1 < LINES && !order[..agents + persons].contains(&(line + 1));
        let (op, patch) = match random.below(if alone { 3 } else { 2 }) {
            0 => (Op::Replace(format!("agent {line:02} 𝒳")), format!("PUT {number}:\n+agent {line:02} 𝒳")),
            1 => (Op::Delete, format!("CUT {number}")),
            _ => (
                Op::Below(format!("agent below {line:02}")),
                format!("PUT >{number}:\n+agent below {line:02}"),
            ),
        };
        ops[line].push(op);
        patches.push(patch);
    }
    for &line in &order[agents..agents + persons] {
        let find = format!("gg/line {line:02}<CR>");
        let (op, how, text) = match random.below(3) {
            0 => (Op::Append(format!(" typed {line:02} ß")), "A", format!(" typed {line:02} ß")),
            1 => (Op::Below(format!("typed below {line:02}")), "o", format!("typed below {line:02}")),
            _ => (Op::Replace(format!("typed over {line:02}")), "cc", format!("typed over {line:02}")),
        };
        ops[line].push(op);
        // In pieces, so that edits arrive while the person is in insert mode.
        let cut =
            text.char_indices().map(|(at, _)| at).nth(4 + usize::try_from(random.below(6)).unwrap()).unwrap();
        let mut pause = || Duration::from_millis(random.below(60));
        keys.push((pause(), format!("{find}{how}{}", &text[..cut])));
        keys.push((pause(), format!("{}<Esc>", &text[cut..])));
    }
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
    Play { keys, patches, before, after }
}

#[test]
fn thirty_interleavings_of_typing_and_edits_end_as_in_turn() {
    if !in_editors("thirty_interleavings_of_typing_and_edits_end_as_in_turn") {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    sandbox.make_repository();
    let model = Model::install(&sandbox);
    sandbox.write("start.txt", "start\n");
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["start.txt"]);
    let base = std::env::var("INTERLEAVING_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = base.map_or(1..=SEEDS, |seed| seed..=seed);
    for seed in seeds {
        eprintln!("seed {seed} (INTERLEAVING_SEED={seed} plays it alone)");
        let play = play(seed);
        let file = format!("play-{seed}.txt");
        sandbox.write(&file, play.before.join("\n") + "\n");
        model.edits(&file, &[], &play.patches, &format!("finished {seed}"));
        neovim.keys(&format!(":edit {file}<CR>"));
        neovim.wait_lua(
            "the server knows the file",
            "return #vim.lsp.get_clients({ name = 'pilcrow', bufnr = 0 }) == 1",
        );
        neovim.lua("require('pilcrow').prompt('go'); return true");
        for (pause, keys) in &play.keys {
            // Not a wait for anything: the pauses are what is random.
            std::thread::sleep(*pause);
            neovim.keys(keys);
        }
        let wanted = play.after.join("\n");
        neovim.wait_lua(
            "the run ends",
            "local said = vim.fn.execute('messages'); return said:find('finished') ~= nil or said:find('line %d+ of the script') ~= nil",
        );
        let finished = neovim.messages().contains(&format!("finished {seed}"));
        assert!(finished, "seed {seed}: {}\n{}", neovim.messages(), model.conversation());
        neovim.wait_text(&file, &format!("seed {seed}, wanted:\n{wanted}\n"), |text| text == wanted);
        let known = sandbox.read(&file);
        assert_eq!(known, play.before.join("\n") + "\n", "seed {seed}: somebody saved");
        neovim.keys(":bdelete! | messages clear<CR>");
        neovim.wait_lua("the next file can come", "return vim.fn.execute('messages') == ''");
    }
}
