//! The tool `write`: a new file, or the whole text of a file that was read.

use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use policy::{Effects, ErrorCode, Writes};
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{Operation, ReadError, WorkspaceEdit};

use crate::change::{self, Change};
use crate::described::{BuiltIn, Described, flag, text};
use crate::{Failure, ToolContext, arguments, display};

pub struct Write {
    context: Arc<ToolContext>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    content: String,
    #[serde(default)]
    overwrite: bool,
}

impl Write {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let properties = json!({
            "path": text("file"),
            "content": text("the whole text"),
            "overwrite": flag("replace a file that you read"),
        });
        let (about, required) = (include_str!("write.md"), ["path", "content"]);
        Described::new("write", "Write", about, properties, &required, Self { context }).at_start()
    }
}

impl BuiltIn for Write {
    fn effects(&self, args: &Value) -> Effects {
        let path = args["path"].as_str().and_then(|path| self.context.workspace.resolve(path).ok());
        let writes = path.map_or(Writes::Unknown, |path| Writes::Paths(vec![path]));
        Effects { reads: true, writes, ..Effects::default() }
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        let context = &*self.context;
        let path = context.workspace.resolve(&args.path)?;
        let shown_path = context.display_path(&path);
        let label = format!("write {shown_path}");
        let change = Change { label: &label, places: false, apply: true };
        let done = change::apply(context, cx, change, |_| {
            Box::pin(async {
                let (mut content, mut note) = (args.content.clone(), None);
                let replaces = match context.workspace.document(&path) {
                    Err(ReadError::NotFound { .. }) => None,
                    Err(error) => return Err(error.into()),
                    Ok(_) if !args.overwrite => {
                        return Err(Failure::new(
                            ErrorCode::Conflict,
                            format!("{shown_path} exists; change it with `edit`, or read it and write with overwrite: true"),
                        ));
                    }
                    Ok(document) if !display::was_read(context, &document) => {
                        return Err(Failure::new(
                            ErrorCode::StaleText,
                            format!("{shown_path} was not read in this session, or changed since; read it, then overwrite"),
                        ));
                    }
                    Ok(document) => {
                        if is_crlf(&document.text) && !args.content.contains('\r') {
                            content = args.content.replace('\n', "\r\n");
                            note = Some("its lines end in CRLF, as before".to_owned());
                        }
                        Some(document.version)
                    }
                };
                let operations = vec![Operation::Create { path: path.clone(), text: content, replaces }];
                let edit = WorkspaceEdit { label: String::new(), operations, ..WorkspaceEdit::default() };
                Ok(change::Proposal { edit, note, ..change::Proposal::default() })
            })
        })
        .await?;
        let tag = match context.workspace.document(&path) {
            Ok(document) => display::render_header(context, &document),
            Err(_) => String::new(),
        };
        Ok(ToolResult::text(format!("{tag}{}", done.text)).with_details(done.details))
    }
}

/// Whether every line ends in CRLF. Models write line feeds alone.
fn is_crlf(text: &str) -> bool {
    let ends = text.matches('\n').count();
    ends > 0 && ends == text.matches("\r\n").count()
}
