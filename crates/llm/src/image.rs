//! The kind and size of an image, and what it costs.
//!
//! The module is pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imagesize::ImageType;

/// Number of bytes that are searched for an image's size.
const HEAD: usize = 256 << 10;
/// Tokens of an image whose size or cost is unknown.
const UNKNOWN: u64 = 1_200;

/// Kind and size of an image that models accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageInfo {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub mime_type: &'static str,
    pub width: u64,
    pub height: u64,
}

impl ImageInfo {
    /// Reads the header of an image; `None` for any other file.
    pub fn of(bytes: &[u8]) -> Option<ImageInfo> {
        let mime_type = match imagesize::image_type(bytes).ok()? {
            ImageType::Png => "image/png",
            ImageType::Jpeg => "image/jpeg",
            ImageType::Gif => "image/gif",
            ImageType::Webp => "image/webp",
            _ => return None,
        };
        let size = imagesize::blob_size(bytes).ok()?;
        Some(ImageInfo { mime_type, width: size.width as u64, height: size.height as u64 })
    }

    /// Whether the file has pixels, and all parts up to its end.
    ///
    /// A provider refuses every request with another image.
    pub fn is_complete(&self, bytes: &[u8]) -> bool {
        let has_end = match self.mime_type {
            "image/png" => is_complete_png(bytes),
            "image/jpeg" => is_complete_jpeg(bytes),
            "image/gif" => bytes.iter().rfind(|byte| **byte != 0) == Some(&b';'),
            // A RIFF header has the number of bytes that follow it.
            _ => bytes
                .get(4..8)
                .and_then(|it| it.try_into().ok())
                .is_some_and(|size| bytes.len() as u64 >= 8 + u64::from(u32::from_le_bytes(size))),
        };
        self.width > 0 && self.height > 0 && has_end
    }

    /// Tokens of the image, by the published formula for this wire protocol.
    pub fn tokens(&self, api: &str) -> u64 {
        let (width, height) = (self.width.max(1), self.height.max(1));
        match api {
            // A longer edge than 1,568 is scaled down, and 750 pixels are a token, up to about 1,600.
            "anthropic-messages" | "bedrock-converse-stream" => {
                let (width, height) = within(width, height, 1_568);
                (width * height).div_ceil(750).min(1_600)
            }
            // A small image costs one tile; others are divided into tiles of 768 pixels.
            "google-generative-ai" | "google-vertex" if width.max(height) <= 384 => 258,
            "google-generative-ai" | "google-vertex" => 258 * width.div_ceil(768) * height.div_ceil(768),
            // It is scaled into 2,048 pixels, its shorter edge to 768, and divided into tiles of 512 pixels.
            "openai-completions" | "openai-responses" | "azure-openai-responses" => {
                let (width, height) = within(width, height, 2_048);
                let shorter = width.min(height);
                let (width, height) = match shorter > 768 {
                    true => (width * 768 / shorter, height * 768 / shorter),
                    false => (width, height),
                };
                85 + 170 * width.div_ceil(512) * height.div_ceil(512)
            }
            _ => UNKNOWN,
        }
    }
}

/// Whether the chunks are intact up to the end, with pixels among them.
fn is_complete_png(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(8..).unwrap_or_default();
    let mut has_pixels = false;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((chunk, after)) = length.checked_add(4).and_then(|length| after.split_at_checked(length))
        else {
            return false;
        };
        let Some((sum, after)) = after.split_first_chunk::<4>() else { return false };
        if crc32fast::hash(chunk) != u32::from_be_bytes(*sum) {
            return false;
        }
        match &chunk[..4] {
            b"IDAT" => has_pixels = true,
            b"IEND" => return has_pixels,
            _ => {}
        }
        rest = after;
    }
    false
}

/// Whether the segments lead to a scan, and the end of the image is below.
fn is_complete_jpeg(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let [0xff, kind, after @ ..] = rest {
        let Some((length, _)) = after.split_first_chunk::<2>() else { return false };
        let Some(next) = after.get(usize::from(u16::from_be_bytes(*length))..) else { return false };
        if *kind == 0xda {
            return next.windows(2).any(|pair| pair == [0xff, 0xd9]);
        }
        rest = next;
    }
    false
}

/// The size scaled down so that the longer edge fits.
fn within(width: u64, height: u64, edge: u64) -> (u64, u64) {
    let longer = width.max(height);
    if longer <= edge { (width, height) } else { (width * edge / longer, height * edge / longer) }
}

/// The tokens of an image in base64; see [`ImageInfo::tokens`].
pub fn image_tokens(api: &str, data: &str) -> u64 {
    let head = data.get(..data.len().min(HEAD / 3 * 4)).unwrap_or_default();
    let info = STANDARD.decode(head).ok().and_then(|bytes| ImageInfo::of(&bytes));
    info.map_or(UNKNOWN, |info| info.tokens(api))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

    #[test]
    fn images_cost_what_the_providers_publish() {
        let cost = |api: &str, width, height| ImageInfo { mime_type: "image/png", width, height }.tokens(api);
        // Anthropic's table of costs, and an image that is scaled down.
        assert_eq!(cost("anthropic-messages", 200, 200), 54);
        assert_eq!(cost("anthropic-messages", 1_000, 1_000), 1_334);
        assert_eq!(cost("anthropic-messages", 4_000, 3_000), 1_600);
        // OpenAI's examples in high detail.
        assert_eq!(cost("openai-responses", 1_024, 1_024), 765);
        assert_eq!(cost("openai-completions", 2_048, 4_096), 1_105);
        assert_eq!(cost("openai-completions", 100, 100), 255);
        assert_eq!(cost("google-generative-ai", 384, 384), 258);
        assert_eq!(cost("google-vertex", 1_000, 700), 516);
        assert_eq!(cost("mistral-conversations", 10, 10), UNKNOWN);
    }

    #[test]
    fn damaged_and_empty_images_are_not_complete() {
        let png = STANDARD.decode(PNG).unwrap();
        let is_complete = |bytes: &[u8]| ImageInfo::of(bytes).is_some_and(|info| info.is_complete(bytes));
        assert!(is_complete(&png));
        assert!((0..png.len()).all(|length| !is_complete(&png[..length])));
        for at in 8..png.len() {
            let mut damaged = png.clone();
            damaged[at] ^= 1;
            assert!(!is_complete(&damaged), "{at}");
        }
        let jpeg = [
            &b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"[..],
            b"\xff\xc0\0\x0b\x08\0\x01\0\x02\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0\x3f\0\x12\xff\xd9",
        ]
        .concat();
        assert!(is_complete(&jpeg));
        assert!((0..jpeg.len()).all(|length| !is_complete(&jpeg[..length])));
        assert!(is_complete(b"GIF89a\x10\0\x08\0\0\0\0;"));
        assert!(!is_complete(b"GIF89a\x10\0\x08\0\0\0\0"));
        assert!(!is_complete(b"GIF89a\0\0\x08\0\0\0\0;"));
    }

    #[test]
    fn the_header_has_the_kind_and_the_size() {
        let bytes = STANDARD.decode(PNG).unwrap();
        let png = ImageInfo { mime_type: "image/png", width: 1, height: 1 };
        assert_eq!(ImageInfo::of(&bytes), Some(png));
        assert_eq!(
            ImageInfo::of(b"GIF89a\x10\x00\x08\x00\xf0\x00").map(|it| (it.width, it.height)),
            Some((16, 8))
        );
        assert_eq!(ImageInfo::of(b"fn main() {}"), None);
        assert_eq!(ImageInfo::of(&bytes[..12]), None);
        assert_eq!((image_tokens("anthropic-messages", PNG), image_tokens("x", "AAAA")), (1, UNKNOWN));
    }
}
