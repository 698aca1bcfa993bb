//! Words that are not ours, made so that showing them does nothing but show them.

use std::borrow::Cow;

/// `text` without what would be carried out by a terminal that shows it: what models, files and programs say is not
/// ours. Line ends and tabs stay; another control character becomes its picture.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let acts = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().filter(|character| *character != '\r').map(|character| match character {
        _ if !acts(character) => character,
        _ => picture(character),
    });
    Cow::Owned(shown.collect())
}

/// What somebody is asked about, with all that it holds to be seen: nothing acts on a terminal, turns the order of what
/// is read, or takes no room. Line ends and tabs stay, and `\n` is the only line end.
pub fn unmasked(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| character != '\n' && character != '\t' && hides(character)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\n' | '\t' => shown.push(character),
            // Scripts and emoji are joined by them; after ASCII they only hide.
            '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' if !before.is_ascii() && !hides(before) => {
                shown.push(character);
            }
            _ if character.is_control() => shown.push(picture(character)),
            _ if hides(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
        before = character;
    }
    Cow::Owned(shown)
}

/// The same in one line.
pub fn unmasked_line(text: &str) -> Cow<'_, str> {
    match unmasked(text) {
        shown if shown.contains('\n') => Cow::Owned(shown.replace('\n', "␊")),
        shown => shown,
    }
}

/// Whether it is not seen where it stands: controls, what turns the direction, and what takes no room (Unicode's
/// `Default_Ignorable_Code_Point`, and line ends that terminals do not know).
fn hides(character: char) -> bool {
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
    fn what_a_terminal_would_carry_out_is_shown_instead() {
        assert_eq!(harmless("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(harmless("\u{1b}]0;title\u{7}x\r\n\u{9b}2J\u{7f}"), "␛]0;title␇x\n\u{fffd}2J\u{fffd}");
    }

    #[test]
    fn nothing_hides_in_what_is_asked_about() {
        assert_eq!(unmasked("echo x #\u{1b}[1A\u{1b}[2K\rRun ls?\u{1b}[8m"), "echo x #␛[1A␛[2K␍Run ls?␛[8m");
        assert_eq!(unmasked("a\u{202e}txt.exe\u{2066}\u{200b}"), "a\\u{202e}txt.exe\\u{2066}\\u{200b}");
        assert_eq!(
            unmasked("rm a\u{200d}b\u{fe0f} \u{e0041}\u{200d}"),
            "rm a\\u{200d}b\\u{fe0f} \\u{e0041}\\u{200d}"
        );
        assert_eq!(unmasked("a\tb\nc é שלום"), "a\tb\nc é שלום");
        assert_eq!(
            unmasked("می\u{200c}خواهم 👩\u{200d}💻 ⚠\u{fe0f}"),
            "می\u{200c}خواهم 👩\u{200d}💻 ⚠\u{fe0f}"
        );
        assert_eq!(unmasked_line("a\nb"), "a␊b");
        assert_eq!(unmasked("a\r\nb\r"), "a\nb␍");
    }
}
