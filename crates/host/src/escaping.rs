//! Escaping of untrusted text for terminals.

use std::borrow::Cow;

/// Replaces control characters in `text` by their pictures.
///
/// A terminal would interpret them. Keeps line ends and tabs.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    let is_active = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().filter(|character| *character != '\r').map(|character| match character {
        _ if !is_active(character) => character,
        _ => picture(character),
    });
    Cow::Owned(shown.collect())
}

/// Makes every character of a question visible.
///
/// Replaces control characters, direction changes and characters without width. Keeps line ends and tabs;
/// `\n` is the only line end.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| character != '\n' && character != '\t' && is_invisible(character)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\n' | '\t' => shown.push(character),
            // They join scripts and emoji; after ASCII they are only invisible.
            '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}'
                if !before.is_ascii() && !is_invisible(before) =>
            {
                shown.push(character);
            }
            _ if character.is_control() => shown.push(picture(character)),
            _ if is_invisible(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
        before = character;
    }
    Cow::Owned(shown)
}

/// Makes every character visible as [`escape_invisible`] does, in one line.
pub fn escape_invisible_line(text: &str) -> Cow<'_, str> {
    match escape_invisible(text) {
        shown if shown.contains('\n') => Cow::Owned(shown.replace('\n', "␊")),
        shown => shown,
    }
}

/// Whether a character is invisible.
///
/// Control characters, direction changes and characters without width are invisible (Unicode's
/// `Default_Ignorable_Code_Point`, and line ends that terminals ignore).
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn picture(control: char) -> char {
    match control {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(control)).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_pictures() {
        assert_eq!(escape_controls("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(
            escape_controls("\u{1b}]0;title\u{7}x\r\n\u{9b}2J\u{7f}"),
            "␛]0;title␇x\n\u{fffd}2J\u{fffd}"
        );
    }

    #[test]
    fn questions_show_invisible_characters() {
        assert_eq!(
            escape_invisible("echo x #\u{1b}[1A\u{1b}[2K\rRun ls?\u{1b}[8m"),
            "echo x #␛[1A␛[2K␍Run ls?␛[8m"
        );
        assert_eq!(
            escape_invisible("a\u{202e}txt.exe\u{2066}\u{200b}"),
            "a\\u{202e}txt.exe\\u{2066}\\u{200b}"
        );
        assert_eq!(
            escape_invisible("rm a\u{200d}b\u{fe0f} \u{e0041}\u{200d}"),
            "rm a\\u{200d}b\\u{fe0f} \\u{e0041}\\u{200d}"
        );
        assert_eq!(escape_invisible("a\tb\nc é שלום"), "a\tb\nc é שלום");
        assert_eq!(
            escape_invisible("می\u{200c}خواهم 👩\u{200d}💻 ⚠\u{fe0f}"),
            "می\u{200c}خواهم 👩\u{200d}💻 ⚠\u{fe0f}"
        );
        assert_eq!(escape_invisible_line("a\nb"), "a␊b");
        assert_eq!(escape_invisible("a\r\nb\r"), "a\nb␍");
    }
}
