//! Which faults are retried: requests made and time waited, on a virtual clock.

use expect_test::expect;
use llm::protocol::openai_completions;
use llm::{Effort, Endpoint, RemoteModel, Thinking, ThinkingLevel, Timeouts};
use testing::model::{ModelServer, Reply, Step};

use super::*;

/// A fault, and where in the exchange it occurs.
struct Fault {
    stage: &'static str,
    name: &'static str,
    /// The replies in turn, from the first again after the last.
    replies: Vec<Reply>,
}

fn fault(stage: &'static str, name: &'static str, reply: Reply) -> Fault {
    Fault { stage, name, replies: vec![reply] }
}

/// A stream that has begun, and then takes these steps.
fn begun(steps: impl IntoIterator<Item = Step>) -> Reply {
    let half = "data: {\"id\": \"r\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": \"half\"}}]}\n\n";
    Reply::stream(half, usize::MAX).steps(steps)
}

/// A stream that has begun, and then has this chunk.
fn then(chunk: &Value) -> Reply {
    begun([Step::Send(format!("data: {chunk}\n\n").into_bytes())])
}

fn faults() -> Vec<Fault> {
    let silent = || Reply::status(200).before_headers([Step::Hang]);
    let status =
        |status: u16, text: &str| Reply::status(status).body(json!({"error": {"message": text}}).to_string());
    let page = |status| {
        Reply::status(status).header("content-type", "text/html").body("<html><h1>Sign in</h1></html>")
    };
    let login = |kind: &str, text: &[u8]| Reply::status(200).header("content-type", kind).body(text);
    let error = |code: &str, text: &str| then(&json!({"error": {"code": code, "message": text}}));
    let finished = |reason: &str| then(&json!({"choices": [{"delta": {}, "finish_reason": reason}]}));
    // The client reads what was sent before the reset.
    let pause = || Step::Wait(Duration::from_millis(1));
    let headers = "before headers";
    vec![
        fault(headers, "reset", Reply::status(200).before_headers([Step::Reset])),
        fault(headers, "closed", Reply::status(200).before_headers([Step::Cut])),
        fault(headers, "silent", silent()),
        fault(headers, "silent, local server", silent()),
        fault("status", "408", status(408, "timeout")),
        fault("status", "409", status(409, "conflict")),
        fault("status", "429", status(429, "slow down")),
        fault("status", "429 with retry-after 20", status(429, "slow down").header("retry-after", "20")),
        fault("status", "429 with retry-after 90", status(429, "slow down").header("retry-after", "90")),
        fault("status", "429 of a used up quota", status(429, "insufficient_quota")),
        fault("status", "500", status(500, "internal")),
        fault("status", "502 with a page", page(502)),
        fault("status", "503", status(503, "busy")),
        fault(
            "status",
            "503 with x-should-retry: false",
            status(503, "busy").header("x-should-retry", "false"),
        ),
        fault("status", "504", status(504, "timeout")),
        fault("status", "520", status(520, "unknown")),
        fault("status", "529", status(529, "overloaded")),
        fault("status", "400", status(400, "no such field")),
        fault("status", "400 of a long request", status(400, "prompt is too long")),
        fault("status", "401", status(401, "bad key")),
        fault("status", "402", status(402, "pay")),
        fault("status", "403", status(403, "not allowed")),
        fault("status", "404", status(404, "no such model")),
        fault("status", "413", status(413, "too large")),
        fault("status", "302 to a login page", page(302).header("location", "/login")),
        fault("body", "login page with status 200", page(200)),
        fault("body", "login page as text/plain", login("text/plain", b"Please sign in".as_slice())),
        fault("body", "login page in Latin-1", login("text/plain", b"Identifiez-vous s'il vous pla\xeet")),
        fault("body", "login page as text/html", login("text/html", b"database login:\nPlease sign in")),
        fault("body", "empty", Reply::status(200)),
        fault("body", "an error as JSON", status(200, "no such field")),
        fault("body", "an overload as JSON", status(200, "overloaded")),
        fault("stream", "reset", begun([pause(), Step::Reset])),
        fault("stream", "closed", begun([pause(), Step::Cut])),
        fault("stream", "ended without finish_reason", begun([])),
        fault("stream", "silent", begun([Step::Hang])),
        fault("stream", "silent, thinking model", begun([Step::Hang])),
        fault("stream", "error 503", error("503", "busy")),
        fault("stream", "error overloaded", error("overloaded_error", "overloaded")),
        fault("stream", "error rate_limit_exceeded", error("rate_limit_exceeded", "slow down")),
        fault("stream", "error insufficient_quota", error("insufficient_quota", "pay")),
        fault("stream", "error of another kind", error("invalid_request", "no such field")),
        fault("stream", "refused by a filter", finished("content_filter")),
        fault("after finish_reason", "reset", finished("stop").steps([pause(), Step::Reset])),
        Fault {
            stage: "mixed",
            name: "429, reset before headers, silent",
            replies: vec![
                status(429, "slow down"),
                Reply::status(200).before_headers([Step::Reset]),
                begun([Step::Hang]),
            ],
        },
        Fault {
            stage: "mixed",
            name: "closed stream, 503, overload",
            replies: vec![
                begun([pause(), Step::Cut]),
                status(503, "busy"),
                error("overloaded_error", "overloaded"),
            ],
        },
        Fault {
            stage: "mixed",
            name: "429, then a login page",
            replies: vec![status(429, "slow down"), page(200)],
        },
    ]
}

/// The delay without its random part.
fn whole(seconds: f64) -> f64 {
    let mut doubled = (0..6).map(|times| f64::from(1 << times));
    doubled.find(|it| (it * 0.75 - 0.001..=*it).contains(&seconds)).unwrap_or(seconds)
}

#[tokio::test(start_paused = true)]
async fn faults_by_stage_have_their_retries() {
    let mut table = format!(
        "{:<20}{:<34}{:>8} {:<22}{:>7}  ends with\n",
        "stage", "fault", "requests", "waits in s", "total"
    );
    for Fault { stage, name, replies } in faults() {
        let mut replies = replies.into_iter().cycle();
        let server = ModelServer::answering(move |_| replies.next().unwrap()).await.unwrap();
        let mut endpoint = Endpoint::new("local", &server.base_url(), "m");
        if name.contains("thinking") {
            endpoint.thinking = Thinking([(ThinkingLevel::High, Effort::Word("high".to_owned()))].into());
        }
        if !name.contains("local") {
            let thinks = name.contains("thinking");
            endpoint.timeouts = Some(Timeouts::for_url("https://api.example.com", thinks));
        }
        let model = RemoteModel::new(Arc::new(openai_completions::PROTOCOL), endpoint);
        let events = Arc::new(Recorder::default());
        let session = Session::builder(Arc::new(model), Registry::default()).sink(events.clone()).build();
        let before = tokio::time::Instant::now();
        let outcome = session.prompt("go").await;
        let total = before.elapsed().as_secs_f64();
        session.close(DEADLINE).await;
        let envelopes = events.envelopes.lock();
        let delays = envelopes.iter().filter_map(|envelope| match &envelope.event {
            Event::RetryStart { delay_ms, .. } => Some(Duration::from_millis(*delay_ms).as_secs_f64()),
            _ => None,
        });
        let delays: Vec<f64> = delays.collect();
        let shown: Vec<String> = delays.iter().map(|delay| whole(*delay).to_string()).collect();
        // The clock has the random part of the waits, which differs in each run.
        let random: f64 = delays.iter().map(|delay| whole(*delay) - delay).sum();
        let requests = server.received().len();
        table.push_str(&format!(
            "{stage:<20}{name:<34}{requests:>8} {:<22}{:>7.0}  {:?}\n",
            shown.join(" "),
            total + random,
            outcome.reason
        ));
    }
    expect![[r#"
        stage               fault                             requests waits in s              total  ends with
        before headers      reset                                    6 1 2 4 8 16                 31  Error
        before headers      closed                                   6 1 2 4 8 16                 31  Error
        before headers      silent                                   6 1 2 4 8 16                751  TimeoutIdle
        before headers      silent, local server                     1                           900  TimeoutIdle
        status              408                                      6 1 2 4 8 16                 31  Error
        status              409                                      6 1 2 4 8 16                 31  Error
        status              429                                      6 1 2 4 8 16                 31  Error
        status              429 with retry-after 20                  6 20 20 20 20 20            100  Error
        status              429 with retry-after 90                  1                             0  Error
        status              429 of a used up quota                   1                             0  Error
        status              500                                      6 1 2 4 8 16                 31  Error
        status              502 with a page                          6 1 2 4 8 16                 31  Error
        status              503                                      6 1 2 4 8 16                 31  Error
        status              503 with x-should-retry: false           1                             0  Error
        status              504                                      6 1 2 4 8 16                 31  Error
        status              520                                      6 1 2 4 8 16                 31  Error
        status              529                                      6 1 2 4 8 16                 31  Error
        status              400                                      1                             0  Error
        status              400 of a long request                    1                             0  Error
        status              401                                      1                             0  Error
        status              402                                      1                             0  Error
        status              403                                      1                             0  Error
        status              404                                      1                             0  Error
        status              413                                      1                             0  Error
        status              302 to a login page                      1                             0  Error
        body                login page with status 200               1                             0  Error
        body                login page as text/plain                 1                             0  Error
        body                login page in Latin-1                    1                             0  Error
        body                login page as text/html                  1                             0  Error
        body                empty                                    6 1 2 4 8 16                 31  Error
        body                an error as JSON                         1                             0  Error
        body                an overload as JSON                      6 1 2 4 8 16                 31  Error
        stream              reset                                    6 1 2 4 8 16                 31  Error
        stream              closed                                   6 1 2 4 8 16                 31  Error
        stream              ended without finish_reason              6 1 2 4 8 16                 31  Error
        stream              silent                                   6 1 2 4 8 16                751  TimeoutIdle
        stream              silent, thinking model                   6 1 2 4 8 16               1831  TimeoutIdle
        stream              error 503                                6 1 2 4 8 16                 31  Error
        stream              error overloaded                         6 1 2 4 8 16                 31  Error
        stream              error rate_limit_exceeded                6 1 2 4 8 16                 31  Error
        stream              error insufficient_quota                 1                             0  Error
        stream              error of another kind                    1                             0  Error
        stream              refused by a filter                      1                             0  Error
        after finish_reason reset                                    1                             0  NoToolCalls
        mixed               429, reset before headers, silent        6 1 2 4 8 16                271  TimeoutIdle
        mixed               closed stream, 503, overload             6 1 2 4 8 16                 31  Error
        mixed               429, then a login page                   2 1                           1  Error
    "#]].assert_eq(&table);
}
