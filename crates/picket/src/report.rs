//! Diagnostics and errors as text for people.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer};
use picket_policy::{Diagnostic, Severity};
use picket_source::Loaded;

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
