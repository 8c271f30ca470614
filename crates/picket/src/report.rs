//! Diagnostics and errors as text for people.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use picket_policy::{Diagnostic, Severity, Span};
use picket_source::Loaded;

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
    for (index, label) in diagnostic.labels.iter().enumerate() {
        let kind = if index == 0 {
            AnnotationKind::Primary
        } else {
            AnnotationKind::Context
        };
        if let Some((source, range)) = source(&label.span, loaded) {
            let annotation = kind.span(range).label(label.text.as_str());
            let snippet = Snippet::source(source)
                .path(&*label.span.file)
                .annotation(annotation);
            main = main.element(snippet);
        }
    }
    for note in &diagnostic.notes {
        main = main.element(Level::NOTE.message(note.as_str()));
    }
    let mut groups = vec![main];
    for fix in &diagnostic.fixes {
        let mut group = Group::with_title(Level::HELP.secondary_title(fix.title.as_str()));
        for edit in &fix.edits {
            if let Some((source, range)) = source(&edit.span, loaded) {
                let patch = Patch::new(range, edit.replacement.as_str());
                group = group.element(Snippet::source(source).path(&*edit.span.file).patch(patch));
            }
        }
        groups.push(group);
    }
    format!("{}\n\n", renderer.render(&groups))
}

/// The text of the file of a span, and the span's bytes in it; `None` when it does not fit the text.
fn source<'a>(span: &Span, loaded: &'a Loaded) -> Option<(&'a str, std::ops::Range<usize>)> {
    let text = loaded.sources.get(&span.file)?;
    text.get(span.start..span.end)?;
    Some((text, span.start..span.end))
}
