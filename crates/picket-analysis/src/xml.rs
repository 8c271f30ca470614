//! Text in XML.

/// Text as XML has it; characters that it cannot hold become replacement characters.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            _ if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            _ => escaped.push(character),
        }
    }
    escaped
}
