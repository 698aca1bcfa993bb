//! Comparison of two engines: the same rows to `pilcrow edit --batch` and a peer.
//!
//! Times include JSON and pipes of each request; engines may also report their own (`micros`). A
//! peer's adapter translates its patch syntax. Rows that it refuses are counted and not timed.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Engine;
use crate::exec;
use crate::tidy;

const SIZES: [usize; 3] = [200, 2_000, 20_000];
const TURNS: usize = 15;

/// Compares the built release of pilcrow with `command`.
pub(crate) fn run(command: &str, directory: &str) -> Result<()> {
    let program = tidy::target_directory()?.join(directory).join("pilcrow");
    let mut ours = Engine::start(&format!("exec {} edit --batch", exec::quote(&program)))?;
    let mut peer = Engine::start(command)?;
    println!(
        "\n{:<22} {:>10} {:>10} {:>8}   {:>10} {:>10} refused",
        "ms a row, median", "ours", "peer", "ratio", "ours says", "peer says"
    );
    for size in SIZES {
        for (name, drift) in [("fresh", ""), ("stale", "// another line\n")] {
            let base: String =
                (0..size).map(|at| format!("const value{at} = compute({at}, {});\n", at % 7)).collect();
            let current = format!("{drift}{base}");
            let patch = format!("[f.ts#TAG]\nPUT {}:\n+const changed = 1;\n", size / 2);
            let ask = |engine: &mut Engine| -> Result<(f64, f64, usize)> {
                let (mut wall, mut own, mut refused) = (Vec::new(), Vec::new(), 0);
                for _ in 0..TURNS {
                    let started = Instant::now();
                    let answer = engine.ask("f.ts", &base, &current, &patch)?;
                    if answer.status == "refused" {
                        refused += 1;
                        continue;
                    }
                    wall.push(started.elapsed());
                    own.push(Duration::from_micros(answer.micros));
                }
                Ok((median(wall), median(own), refused))
            };
            let (ours_wall, ours_own, _) = ask(&mut ours)?;
            let (peer_wall, peer_own, refused) = ask(&mut peer)?;
            println!(
                "{:<22} {ours_wall:>10.2} {peer_wall:>10.2} {:>7.1}x   {ours_own:>10.2} {peer_own:>10.2} {refused:>7}",
                format!("{size} lines, {name}"),
                peer_wall / ours_wall
            );
        }
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
}
