//! A session as a document: plain text, Markdown, or one page of HTML.
//!
//! Pure. The page loads nothing.

use agent::store::{EntryBody, LoadedSession};
use llm::{Content, Message};
use serde_json::Value;

/// A part of the document, with its author.
struct Part {
    author: String,
    blocks: Vec<Block>,
}

enum Block {
    Text(String),
    Thinking(String),
    /// Input or output of a program or tool.
    Code(String),
    Note(String),
}

/// Lists the messages on the current branch, including those that were compacted.
fn parts(session: &LoadedSession) -> Vec<Part> {
    session.path().into_iter().filter_map(|entry| part(session.body(entry).ok()?)).collect()
}

fn part(body: EntryBody) -> Option<Part> {
    let text =
        |author: &str, text: String| Part { author: author.to_owned(), blocks: vec![Block::Text(text)] };
    Some(match body {
        EntryBody::Message(message) => message_part(&message),
        EntryBody::Command { command, output, .. } => {
            Part { author: "command".to_owned(), blocks: vec![Block::Code(command), Block::Code(output)] }
        }
        EntryBody::Compaction { summary, .. } => text("compacted for the model", summary),
        EntryBody::BranchSummary { summary, .. } => text("from another branch", summary),
        EntryBody::CustomMessage { kind, content, display: true } => {
            Part { author: kind, blocks: content.iter().map(block).collect() }
        }
        _ => return None,
    })
}

fn message_part(message: &Message) -> Part {
    let author = match message {
        Message::User(_) => "user".to_owned(),
        Message::Assistant(message) => message.model.clone(),
        Message::ToolResult(result) if result.is_error => format!("{} failed", result.tool_name),
        Message::ToolResult(result) => result.tool_name.clone(),
    };
    let mut blocks: Vec<Block> = message.content().iter().map(block).collect();
    match message {
        Message::ToolResult(_) => {
            for block in &mut blocks {
                if let Block::Text(text) = block {
                    *block = Block::Code(std::mem::take(text));
                }
            }
        }
        Message::Assistant(message) => {
            blocks.extend(message.error_message.clone().map(Block::Note));
        }
        Message::User(_) => {}
    }
    Part { author, blocks }
}

fn block(content: &Content) -> Block {
    match content {
        Content::Text { text, .. } => Block::Text(text.trim_end().to_owned()),
        Content::Thinking { thinking, .. } => Block::Thinking(thinking.trim_end().to_owned()),
        Content::ToolCall(call) => {
            Block::Code(format!("{} {}", call.name, Value::Object(call.arguments.clone())))
        }
        Content::Image { mime_type, .. } => Block::Note(format!("image, {mime_type}")),
    }
}

fn heading(session: &LoadedSession) -> String {
    let header = &session.header;
    let name = session.name().unwrap_or_else(|| header.id.clone());
    format!("Session {name} in {} ({})", header.cwd, header.timestamp)
}

/// Renders plain text for the terminal.
pub fn text(session: &LoadedSession) -> String {
    let mut out = heading(session) + "\n";
    for Part { author, blocks } in parts(session) {
        out.push_str(&format!("\n[{author}]\n"));
        for block in blocks {
            match block {
                Block::Text(text) => out.push_str(&format!("{text}\n")),
                Block::Code(text) => out.push_str(&format!("→ {}\n", text.trim_end())),
                Block::Thinking(text) | Block::Note(text) => out.push_str(&format!("({text})\n")),
            }
        }
    }
    out
}

/// Renders Markdown. A fence is longer than any in its code.
pub fn markdown(session: &LoadedSession) -> String {
    let mut out = format!("# {}\n", heading(session));
    for Part { author, blocks } in parts(session) {
        out.push_str(&format!("\n## {author}\n"));
        for block in blocks {
            match block {
                Block::Text(text) => out.push_str(&format!("\n{text}\n")),
                Block::Thinking(text) | Block::Note(text) => {
                    let quoted: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
                    out.push_str(&format!("\n{}\n", quoted.join("\n")));
                }
                Block::Code(text) => {
                    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
                    let fence = "`".repeat(longest.max(2) + 1);
                    out.push_str(&format!("\n{fence}\n{}\n{fence}\n", text.trim_end()));
                }
            }
        }
    }
    out
}

/// Renders one HTML page without scripts and external resources, all content
/// escaped.
pub fn html(session: &LoadedSession) -> String {
    const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}\
        h2{font-size:1rem;margin:2rem 0 .5rem;color:#666}pre{white-space:pre-wrap;background:#f4f4f4;padding:.6rem;\
        overflow-wrap:anywhere}.said{white-space:pre-wrap}.aside{color:#777;font-style:italic;white-space:pre-wrap}";
    let heading = escaped(&heading(session));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{heading}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{heading}</h1>\n"
    );
    for Part { author, blocks } in parts(session) {
        out.push_str(&format!("<h2>{}</h2>\n", escaped(&author)));
        for block in blocks {
            out.push_str(&match block {
                Block::Text(text) => format!("<div class=\"said\">{}</div>\n", escaped(&text)),
                Block::Code(text) => format!("<pre>{}</pre>\n", escaped(text.trim_end())),
                Block::Thinking(text) | Block::Note(text) => {
                    format!("<div class=\"aside\">{}</div>\n", escaped(&text))
                }
            });
        }
    }
    out.push_str("</body></html>\n");
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> LoadedSession {
        let text = concat!(
            r#"{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/p"}"#,
            "\n",
            r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"user","content":"<script>alert(1)</script> & \"so\""}}"#,
            "\n",
            r#"{"type":"message","id":"b","parentId":"a","timestamp":"t","message":{"role":"toolResult","toolCallId":"c","toolName":"read","content":"```\nfence\n```"}}"#,
            "\n",
            r#"{"type":"session_info","id":"c","parentId":"b","timestamp":"t","name":"A name"}"#,
            "\n"
        );
        agent::store::parse("f", text.to_owned()).unwrap()
    }

    #[test]
    fn html_escapes_text_and_markdown_fences_code() {
        let page = html(&session());
        for part in ["&lt;script&gt;alert(1)&lt;/script&gt;", "&amp;", "&quot;so&quot;"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script>"));
        let document = markdown(&session());
        assert!(document.starts_with("# Session A name in /p (t)\n\n## user\n"));
        assert!(document.contains("\n````\n```\nfence\n```\n````\n"), "{document}");
        assert!(text(&session()).contains("[read]\n→ ```\nfence\n```\n"));
    }
}
