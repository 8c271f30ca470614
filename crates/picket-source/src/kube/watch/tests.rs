//! What a watch makes of what servers say.

use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::mpsc::channel;

use super::super::kind::BUILT_IN;
use super::super::scripted::{
    BOUND, Reply, Scripted, added, bookmark, end_of_list, events, namespace, refuses, says,
};
use super::*;
use crate::live::Found;

/// How long a server may be silent that is.
const SHORT: Duration = Duration::from_secs(2);

/// Namespaces.
fn namespaces() -> Resource {
    let kind = BUILT_IN.iter().find(|kind| kind.name == "Namespace").unwrap();
    Resource { kind, version: "v1" }
}

/// A page of a list of them.
fn page(names: &[&str], version: &str, rest: &str) -> Reply {
    let items: Vec<_> = names.iter().map(|name| namespace(name, "1")).collect();
    let metadata = json!({"resourceVersion": version, "continue": rest});
    says(json!({"apiVersion": "v1", "kind": "NamespaceList", "metadata": metadata, "items": items}))
}

/// What a watch of namespaces says until it has said `until`, and what it asked: answer by answer what the server says, and nothing once that is at its
/// end.
fn watched(silence: Duration, until: &str, answers: Vec<Reply>) -> (Vec<String>, Vec<String>) {
    let mut answers = answers.into_iter();
    let server = Scripted::new(move |_| answers.next().unwrap_or_else(|| says("").and_stalls()));
    let kube = server.kube(silence);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let (sender, mut news) = channel(1);
        let watch = Watch::<Found> {
            resource: namespaces(),
            number: 1,
            connection: Arc::new(Connection::open(&kube).await.unwrap()),
            news: sender,
        };
        tokio::spawn(watch.run());
        let mut said = Vec::new();
        while said.last().is_none_or(|said| said != until) {
            let Ok(Some(Message::Watched(1, news))) = timeout(BOUND, news.recv()).await else {
                panic!("it never says {until}: {said:#?}");
            };
            said.extend(text(news));
        }
        said
    });
    (said, server.asked())
}

/// News in short; none where the server only answers.
fn text(news: News<Found>) -> Option<String> {
    Some(match news {
        News::Answered => return None,
        News::Step(Step::Begin) => "begin".to_owned(),
        News::Step(Step::Listed(found)) => format!("listed {}", found.name.name),
        News::Step(Step::End) => "end".to_owned(),
        News::Step(Step::Apply(found)) => format!("now {}", found.name.name),
        News::Step(Step::Delete(name)) => format!("gone {}", name.name),
        News::Step(Step::Gone) => "gone".to_owned(),
        News::Reached(version) => format!("at {version}"),
        News::Failed { why, .. } => format!("failed: {}", why.rsplit(": ").next().unwrap_or_default()),
    })
}

/// Whether a request is for events from a version on.
fn goes_on_from(request: &str, version: &str) -> bool {
    request.contains("watch=true")
        && request.ends_with(&format!("&resourceVersion={version}"))
        && !request.contains("sendInitialEvents")
}

#[test]
fn a_watch_goes_on_where_a_bookmark_was() {
    let answers = vec![
        events(&[added("a", "3"), end_of_list("5"), bookmark("9")]),
        events(&[added("b", "11")]).and_stalls(),
    ];
    let (said, asked) = watched(BOUND, "at 11", answers);
    assert_eq!(
        said,
        ["begin", "listed a", "end", "at 5", "at 9", "now b", "at 11"]
    );
    assert!(asked[0].contains("sendInitialEvents=true"), "{asked:?}");
    assert!(asked[0].contains("allowWatchBookmarks=true"), "{asked:?}");
    assert!(goes_on_from(&asked[1], "9"), "{asked:?}");
}

#[test]
fn a_server_that_falls_silent_is_asked_again_from_where_it_was() {
    let answers = vec![
        events(&[added("a", "3"), end_of_list("5")]).and_stalls(),
        events(&[added("b", "6")]).and_stalls(),
    ];
    let (said, asked) = watched(SHORT, "at 6", answers);
    assert_eq!(said[..4], ["begin", "listed a", "end", "at 5"]);
    assert!(said[4].contains("did not answer within"), "{said:?}");
    assert_eq!(said[5..], ["now b", "at 6"]);
    assert!(goes_on_from(&asked[1], "5"), "{asked:?}");
}

#[test]
fn a_streaming_list_that_never_ends_becomes_one_in_pages() {
    let answers = vec![
        events(&[added("a", "3"), added("gone", "4"), bookmark("5")]).and_stalls(),
        page(&["a"], "7", ""),
        events(&[added("b", "8")]).and_stalls(),
    ];
    let (said, asked) = watched(SHORT, "at 8", answers);
    let failed = said.iter().position(|said| said.starts_with("failed")).unwrap();
    assert_eq!(said[..failed], ["begin", "listed a", "listed gone"]);
    assert_eq!(
        said[failed + 1..],
        ["begin", "listed a", "end", "at 7", "now b", "at 8"]
    );
    assert!(
        !asked[1].contains("watch=true") && asked[1].contains("limit=500"),
        "{asked:?}"
    );
    assert!(goes_on_from(&asked[2], "7"), "{asked:?}");
}

#[test]
fn a_streaming_list_that_breaks_off_becomes_one_in_pages() {
    let answers = vec![
        events(&[added("a", "3"), added("gone", "4"), bookmark("5")]),
        page(&["a"], "7", ""),
        events(&[added("b", "8")]).and_stalls(),
    ];
    let (said, asked) = watched(BOUND, "at 8", answers);
    assert_eq!(
        said,
        [
            "begin",
            "listed a",
            "listed gone",
            "failed: the answer ended before the list",
            "begin",
            "listed a",
            "end",
            "at 7",
            "now b",
            "at 8"
        ]
    );
    assert!(
        !asked[1].contains("watch=true") && asked[1].contains("limit=500"),
        "{asked:?}"
    );
    assert!(goes_on_from(&asked[2], "7"), "{asked:?}");
}

#[test]
fn pages_begin_anew_when_the_server_forgot_what_the_list_was() {
    let answers = vec![
        refuses("500 Internal Server Error"),
        page(&["a", "gone"], "7", "more"),
        refuses("410 Gone"),
        page(&["a", "b"], "9", ""),
    ];
    let (said, asked) = watched(BOUND, "at 9", answers);
    assert_eq!(
        said[1..],
        [
            "begin",
            "listed a",
            "listed gone",
            "begin",
            "listed a",
            "listed b",
            "end",
            "at 9"
        ]
    );
    assert!(asked[2].contains("continue=more"), "{asked:?}");
    assert!(
        !asked[3].contains("continue") && !asked[3].contains("limit"),
        "{asked:?}"
    );
}

#[test]
fn what_is_no_event_or_has_no_version_is_no_news() {
    for (answer, why) in [
        (added("b", ""), "failed: an object without a name or version"),
        (json!({"items": []}), "failed: a line that is no event"),
        (bookmark(""), "failed: a bookmark without a `resourceVersion`"),
    ] {
        let answers = vec![
            events(&[added("a", "3"), end_of_list("5"), answer]),
            events(&[bookmark("6")]).and_stalls(),
        ];
        let (said, asked) = watched(BOUND, "at 6", answers);
        assert_eq!(said, ["begin", "listed a", "end", "at 5", why, "at 6"]);
        assert!(goes_on_from(&asked[1], "5"), "{asked:?}");
    }
}

#[test]
fn a_list_that_does_not_say_what_it_is_changes_nothing() {
    let list = |kind: &str, version: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"resourceVersion":"{version}"}},"items":[]}}"#
        )
    };
    for (answer, why) in [
        (
            r#"{"items":[]}"#.to_owned(),
            "a list of Namespace, but of kind `` in ``",
        ),
        (
            list("PodList", "7"),
            "a list of Namespace, but of kind `PodList` in `v1`",
        ),
        (list("NamespaceList", ""), "a list without a `resourceVersion`"),
        (
            r#"{"apiVersion":"v1","kind":"NamespaceList","items":[]}"#.to_owned(),
            "a list without a `resourceVersion`",
        ),
    ] {
        // As a whole list, and as the last page of one.
        for before in [vec![], vec![page(&["a"], "7", "more")]] {
            let mut answers = vec![refuses("500 Internal Server Error")];
            answers.extend(before);
            answers.push(says(&answer));
            let (said, _) = watched(BOUND, &format!("failed: {why}"), answers);
            assert!(!said.contains(&"end".to_owned()), "{answer}: {said:?}");
        }
    }
}
