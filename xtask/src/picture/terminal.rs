//! The escape sequences of a terminal, as far as programs use them for colour (ECMA-48, select graphic rendition).

/// Letters of one style, with no blanks around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The column of the first letter, from 0.
    pub(crate) column: usize,
    pub(crate) text: String,
    pub(crate) style: Style,
}

impl Run {
    /// Columns that it takes: one for each letter.
    pub(crate) fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// How letters look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: Colour,
    pub(crate) bold: bool,
    pub(crate) dim: bool,
}

/// The colours of a terminal; bright ones count as the plain ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colour {
    #[default]
    Default,
    Black,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
    White,
}

impl Style {
    /// This style after the parameters of one sequence, as in `1;32`.
    fn after(mut self, parameters: &str) -> Self {
        for parameter in parameters.split(';') {
            match parameter.parse().unwrap_or(0) {
                0 => self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                22 => (self.bold, self.dim) = (false, false),
                39 => self.colour = Colour::Default,
                // The numbers that follow choose from a larger palette, which this has not.
                38 | 48 => return self,
                code => self.colour = colour(code).unwrap_or(self.colour),
            }
        }
        self
    }
}

fn colour(code: u16) -> Option<Colour> {
    Some(match code {
        30 | 90 => Colour::Black,
        31 | 91 => Colour::Red,
        32 | 92 => Colour::Green,
        33 | 93 => Colour::Yellow,
        34 | 94 => Colour::Blue,
        35 | 95 => Colour::Magenta,
        36 | 96 => Colour::Cyan,
        37 | 97 => Colour::White,
        _ => return None,
    })
}

/// The runs of a line, from left to right. What a carriage return overwrote is gone; blanks separate runs only where
/// the style changes or two follow each other.
pub(crate) fn runs(line: &str) -> Vec<Run> {
    let line = line.rsplit('\r').next().unwrap_or_default();
    let (mut style, mut column, mut found) = (Style::default(), 0, Vec::new());
    for (index, part) in line.split('\u{1b}').enumerate() {
        let text = match part.strip_prefix('[').filter(|_| index > 0) {
            // A sequence ends with its first letter, and `m` is the one for colours.
            Some(sequence) => {
                let end = sequence
                    .find(|letter: char| letter.is_ascii_alphabetic())
                    .unwrap_or(sequence.len());
                let (parameters, rest) = sequence.split_at(end);
                if rest.starts_with('m') {
                    style = style.after(parameters);
                }
                rest.get(1..).unwrap_or_default()
            }
            None => part,
        };
        for word in text.split_inclusive("  ") {
            let visible = word.trim();
            let blanks = word.chars().take_while(|letter| letter.is_whitespace()).count();
            if !visible.is_empty() {
                found.push(Run {
                    column: column + blanks,
                    text: visible.to_owned(),
                    style,
                });
            }
            column += word.chars().count();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_hold_until_they_change() {
        for (line, expected) in [
            ("plain words", vec![(0, "plain words", Colour::Default, false)]),
            (
                "  far   apart",
                vec![
                    (2, "far", Colour::Default, false),
                    (8, "apart", Colour::Default, false),
                ],
            ),
            (
                "a \u{1b}[31mb\u{1b}[1m c\u{1b}[0md",
                vec![
                    (0, "a", Colour::Default, false),
                    (2, "b", Colour::Red, false),
                    (4, "c", Colour::Red, true),
                    (5, "d", Colour::Default, false),
                ],
            ),
            (
                "10%\r\u{1b}[2K\u{1b}[92mdone",
                vec![(0, "done", Colour::Green, false)],
            ),
            ("\u{1b}[38;5;1mx", vec![(0, "x", Colour::Default, false)]),
        ] {
            let found = runs(line);
            let found: Vec<_> = found
                .iter()
                .map(|run| (run.column, run.text.as_str(), run.style.colour, run.style.bold))
                .collect();
            assert_eq!(found, expected, "{line:?}");
        }
    }
}
