//! Diagnostics and errors as text for people, and beside answers in JSON.

use std::io::Write;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer};
use picket_analysis::finding::Finding;
use picket_policy::{Diagnostic, Severity};
use picket_source::Loaded;
use serde::Serialize;

use crate::excerpt::Excerpt;
use crate::output;

/// Prints an error that ends a command.
pub(crate) fn error(error: &anyhow::Error) {
    let group = Group::with_title(Level::ERROR.primary_title(format!("{error:#}")));
    let renderer = renderer(output::color_on_stderr());
    output::to_stderr(&format!("{}\n", renderer.render(&[group])));
}

/// Prints every diagnostic to standard error.
pub(crate) fn on_stderr(loaded: &Loaded) {
    these_on_stderr(&loaded.diagnostics, loaded);
}

/// Prints some diagnostics to standard error.
pub(crate) fn these_on_stderr(diagnostics: &[Diagnostic], loaded: &Loaded) {
    let renderer = renderer(output::color_on_stderr());
    let texts = diagnostics
        .iter()
        .map(|diagnostic| text(diagnostic, loaded, &renderer));
    output::to_stderr(&texts.collect::<String>());
}

/// What is wrong with the input, for the JSON of an answer.
pub(crate) fn findings(loaded: &Loaded) -> Vec<Finding> {
    loaded.diagnostics.iter().map(Finding::from).collect()
}

/// Writes an answer as JSON, with what is wrong with the input beside it.
pub(crate) fn json(answer: impl Serialize, loaded: &Loaded, out: &mut impl Write) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Report<T> {
        #[serde(flatten)]
        answer: T,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        diagnostics: Vec<Finding>,
    }
    let diagnostics = findings(loaded);
    output::json(&Report { answer, diagnostics }, out)
}

/// How text is drawn, with or without colour.
pub(crate) fn renderer(color: bool) -> Renderer {
    let renderer = if color {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    renderer.decor_style(DecorStyle::Ascii)
}

/// One diagnostic with its source lines, and an empty line after it.
pub(crate) fn text(diagnostic: &Diagnostic, loaded: &Loaded, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let mut main = Group::with_title(
        level
            .primary_title(diagnostic.message.as_str())
            .id(diagnostic.code.0),
    );
    let mut corrections = Vec::new();
    for (index, label) in diagnostic.labels.iter().enumerate() {
        let kind = if index == 0 {
            AnnotationKind::Primary
        } else {
            AnnotationKind::Context
        };
        if let Some(excerpt) = Excerpt::of(&label.span, loaded) {
            let annotation = kind.span(excerpt.range.clone()).label(label.text.as_str());
            corrections.extend(excerpt.correction());
            main = main.element(excerpt.snippet().annotation(annotation));
        }
    }
    for note in &diagnostic.notes {
        main = main.element(Level::NOTE.message(note.as_str()));
    }
    let mut groups = vec![main];
    for fix in &diagnostic.fixes {
        let mut group = Group::with_title(Level::HELP.secondary_title(fix.title.as_str()));
        for edit in &fix.edits {
            if let Some(excerpt) = Excerpt::of(&edit.span, loaded) {
                let patch = Patch::new(excerpt.range.clone(), edit.replacement.as_str());
                group = group.element(excerpt.snippet().patch(patch));
            }
        }
        groups.push(group);
    }
    let drawn = renderer.render(&groups);
    let text = corrections.iter().fold(drawn, |text, place| place.apply(&text));
    format!("{text}\n\n")
}
