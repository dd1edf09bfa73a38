//! Characters that mislead whoever reads a text.

/// Whether a character changes how the text around it is read: control characters, also line ends;
/// those that turn the direction of writing (Unicode Standard Annex 9); and those that end a line
/// for some readers.
pub(crate) fn steers(character: char) -> bool {
    match character {
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{2028}' | '\u{2029}' | '\u{feff}' => true,
        other => other.is_control(),
    }
}
