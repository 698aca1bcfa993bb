//! The scripted debug adapter as a program.
//!
//! `scripted-debug-adapter SCRIPT.json [--port PORT | --announce | --connect PORT | --socket
//! PATH]`. Exits with 0 after `disconnect`, 2 at the end of its input, or with the script's status.

#![expect(clippy::disallowed_methods, reason = "a test tool reads and writes its own files")]
#![expect(clippy::print_stdout, reason = "it prints its port")]

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use testing::debug_adapter::{Ended, Script, Step, serve};
use testing::language_server::Record;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().context("usage: scripted-debug-adapter SCRIPT.json [--port PORT | …]")?;
    let text = std::fs::read_to_string(path).context("the script cannot be read")?;
    let script: Script = serde_json::from_str(&text).context("the script is malformed")?;
    if let Some(path) = &script.pid_file {
        let aside = path.with_extension("new");
        std::fs::write(&aside, std::process::id().to_string())?;
        std::fs::rename(&aside, path)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(run(script, &args[1..]))?;
    // The program exits here instead of returning: a thread may still wait for standard input.
    std::process::exit(match ended {
        Ended::Disconnected => 0,
        Ended::EndOfInput => 2,
        Ended::Crash(code) => code,
    })
}

async fn run(script: Script, args: &[String]) -> anyhow::Result<Ended> {
    for step in &script.start {
        match step {
            Step::DelayMs(time) => tokio::time::sleep(Duration::from_millis(*time)).await,
            Step::Stderr(text) => eprint!("{text}"),
            Step::Raw(text) => {
                print!("{text}");
                std::io::stdout().flush()?;
            }
            Step::Crash(code) => return Ok(Ended::Crash(*code)),
            other => bail!("{other:?} needs a request, so it cannot be a start step"),
        }
    }
    let port = |at: usize| -> anyhow::Result<u16> { Ok(args.get(at).context("a port")?.parse()?) };
    let stream = match args.first().map(String::as_str) {
        None => return Ok(serve(tokio::io::stdin(), tokio::io::stdout(), script, Record::default()).await),
        Some("--port") => first(TcpListener::bind(("127.0.0.1", port(1)?)).await?, &script).await?,
        Some("--announce") => {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            println!("adapter listening at: {}", listener.local_addr()?);
            first(listener, &script).await?
        }
        Some("--socket") => {
            let listener = UnixListener::bind(args.get(1).context("a path")?)?;
            let (reader, writer) = first_of(listener, &script).await?.into_split();
            return Ok(serve(reader, writer, script, Record::default()).await);
        }
        Some("--connect") => TcpStream::connect(("127.0.0.1", port(1)?)).await?,
        Some(other) => bail!("unknown option {other}"),
    };
    let (reader, writer) = stream.into_split();
    Ok(serve(reader, writer, script, Record::default()).await)
}

/// Accepts the first connection; later ones get the script of children, if any.
async fn first(listener: TcpListener, script: &Script) -> anyhow::Result<TcpStream> {
    let stream = listener.accept().await?.0;
    if let Some(child) = script.child.clone() {
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (reader, writer) = stream.into_split();
                tokio::spawn(serve(reader, writer, (*child).clone(), Record::default()));
            }
        });
    }
    Ok(stream)
}

/// Accepts connections like [`first`], at a Unix socket.
async fn first_of(listener: UnixListener, script: &Script) -> anyhow::Result<UnixStream> {
    let stream = listener.accept().await?.0;
    if let Some(child) = script.child.clone() {
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (reader, writer) = stream.into_split();
                tokio::spawn(serve(reader, writer, (*child).clone(), Record::default()));
            }
        });
    }
    Ok(stream)
}
