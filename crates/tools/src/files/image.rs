//! Images for models that accept them.

use agent::ToolResult;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use llm::{Content, ImageInfo};
use paths::AbsPath;
use policy::ErrorCode;
use serde_json::json;

use crate::{Failure, ToolContext};

/// Maximum size of an image for a model: 5 MB in base64, Anthropic's limit.
const MAX_BYTES: usize = 3_750_000;
/// Maximum length of its edges in pixels, Anthropic's limit.
const MAX_EDGE: u64 = 8_000;

/// Remark about an image that a provider would refuse.
const DAMAGED: &str = " (not attached: the file is damaged, cut off, or has no pixels)";

/// An image file.
pub(crate) struct Image {
    path: String,
    info: ImageInfo,
    bytes: Vec<u8>,
}

impl Image {
    /// Reads the file at a canonical path; `None` if it is no image. Blocks.
    pub(crate) fn open(context: &ToolContext, path: &AbsPath) -> Option<Image> {
        let bytes = context.workspace.bytes(path).ok()?;
        let info = ImageInfo::of(&bytes)?;
        Some(Image { path: context.display_path(path), info, bytes })
    }

    /// One line: path, kind, dimensions and size.
    fn line(&self) -> String {
        let ImageInfo { mime_type, width, height } = self.info;
        format!("{}: {mime_type}, {width} × {height} pixels, {} bytes", self.path, self.bytes.len())
    }

    /// The block that a model receives; an error if no model accepts the image.
    fn content(&self) -> Result<Content, Failure> {
        if !self.info.is_complete(&self.bytes) {
            return Err(Failure::new(ErrorCode::Unsupported, format!("{}{DAMAGED}", self.line())));
        }
        if self.bytes.len() > MAX_BYTES || self.info.width.max(self.info.height) > MAX_EDGE {
            let message = format!(
                "{}; models accept at most {MAX_BYTES} bytes and {MAX_EDGE} pixels a side; scale it down with a command",
                self.line()
            );
            return Err(Failure::new(ErrorCode::TooLarge, message));
        }
        Ok(Content::Image { data: STANDARD.encode(&self.bytes), mime_type: self.info.mime_type.to_owned() })
    }

    /// The result of a read: the line, and the image if it is `accepted` and intact.
    pub(crate) fn result(&self, accepted: bool) -> Result<ToolResult, Failure> {
        let ImageInfo { mime_type, width, height } = self.info;
        let attached = accepted && self.info.is_complete(&self.bytes);
        let note = match (accepted, attached) {
            (true, true) => "",
            (true, false) => DAMAGED,
            (false, _) => " (the model accepts no images)",
        };
        let mut result = ToolResult::text(format!("{}{note}\n", self.line())).with_details(json!({
            "path": self.path, "mimeType": mime_type, "width": width, "height": height, "bytes": self.bytes.len(),
        }));
        if attached {
            result.content.push(self.content()?);
        }
        Ok(result)
    }
}

/// An image that the user pasted, as the block that a model receives.
///
/// `name` is for errors, `data` the base64 form of a PNG, JPEG, GIF or WebP image.
///
/// # Errors
/// [`ErrorCode::InvalidArguments`] if `data` is not an image; an image that no model accepts.
pub fn pasted_image(name: &str, data: &str) -> Result<Content, Failure> {
    let bytes = STANDARD.decode(data).ok();
    let image =
        bytes.and_then(|bytes| Some(Image { path: name.to_owned(), info: ImageInfo::of(&bytes)?, bytes }));
    let invalid = || Failure::invalid(format!("{name} is not a PNG, JPEG, GIF or WebP image in base64"));
    image.ok_or_else(invalid)?.content()
}

/// The images that a prompt names as `@path`. Blocks.
///
/// The path is relative to `directory`, or else to the workspace.
///
/// # Errors
/// An image that no model accepts.
pub fn images_in_prompt(
    context: &ToolContext,
    directory: &AbsPath,
    prompt: &str,
) -> Result<Vec<Content>, Failure> {
    let names = prompt.split_whitespace().filter_map(|word| word.strip_prefix('@'));
    let images = names.filter_map(|name| {
        let name = name.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
        let places = [directory, context.workspace.root()].map(|place| place.join(name));
        places.iter().find_map(|place| Image::open(context, &paths::canonical_existing(place)))
    });
    images.map(|image| image.content()).collect()
}
