//! `cargo xtask test --quick` leaves this module out, because it needs Chromium.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use picket_analysis::eval::Evaluator;
use picket_analysis::map::{By, Map, write};
use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::Chromium;

/// A page in a browser.
struct Page {
    browser: Chromium,
    folder: TempDir,
}

impl Page {
    /// The page of the shop of `examples/`.
    fn of_shop() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let ran = Command::new(env!("CARGO_BIN_EXE_picket"))
            .args(["matrix", "-f", "examples/shop", "-o", "html"])
            .current_dir(root)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Self::open(|file| fs::write(file, &ran.stdout).unwrap())
    }

    fn of(snapshot: &Snapshot) -> Self {
        Self::open(|file| {
            let engine = Engine::compile(snapshot, Semantics::default());
            let map = Map::new(snapshot, engine.program(), By::Pod);
            let evaluator = Evaluator::new(snapshot, engine.program());
            write::html(&map, &evaluator, &mut File::create(file).unwrap()).unwrap();
        })
    }

    fn open(write: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut page = Self {
            browser: Chromium::start(),
            folder,
        };
        let file = page.file();
        write(&file);
        page.browser.open(&file);
        assert_eq!(page.browser.evaluate("document.body.dataset.ready"), "yes");
        page
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("page.html")
    }

    /// The text of all elements that a selector finds.
    fn texts(&mut self, selector: &str) -> Vec<String> {
        let selector = json!(selector);
        let script = format!("[...document.querySelectorAll({selector})].map(one => one.textContent)");
        let texts = self.browser.evaluate(&script);
        texts
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    }

    /// What the matrix says about two lines: the class of their cell.
    fn state(&mut self, from: &str, to: &str) -> String {
        let class = self.browser.evaluate(&format!(
            "document.querySelector('[role=gridcell][aria-label^={}]').className.split(' ')[1]",
            json!(format!("{from} to {to}: "))
        ));
        class.as_str().unwrap().to_owned()
    }

    fn cell(from: &str, to: &str) -> String {
        format!(
            "[role=gridcell][aria-label^={}]",
            json!(format!("{from} to {to}: "))
        )
    }

    fn rows(&mut self) -> Vec<String> {
        self.texts("[role=rowheader]:not(.heading) .text")
    }

    fn focused(&mut self) -> Value {
        self.browser.evaluate(
            "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent",
        )
    }

    fn end(mut self) {
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn a_click_explains_a_cell_with_the_rules_and_their_lines() {
    let mut page = Page::of_shop();
    assert_eq!(page.state("shop/Deployment/cart", "shop/db-0"), "some");
    assert_eq!(page.state("shop/Deployment/web", "shop/db-0"), "none");
    assert_eq!(page.state("staging/trial", "kube-system/coredns"), "all");
    page.browser
        .click(&Page::cell("shop/Deployment/cart", "shop/db-0"));
    assert_eq!(page.texts("#panel .verdict"), [" TCP 5432"]);
    let causes = page.texts("#panel .side:nth-of-type(1) .allow .causes li");
    assert_eq!(
        causes,
        ["NetworkPolicy shop/cart, egress rule 0 examples/shop/cart.yaml:40"]
    );
    let causes = page.texts("#panel .side:nth-of-type(2) .allow .causes li");
    assert_eq!(
        causes,
        ["NetworkPolicy shop/db, ingress rule 0 examples/shop/db.yaml:47"]
    );
    let denied = page.texts("#panel .side:nth-of-type(2) .deny .causes code");
    assert!(
        denied.contains(&"examples/shop/deny-all.yaml:3".to_owned()),
        "{denied:?}"
    );
    page.browser.click("#panel .close");
    assert_eq!(
        page.browser.evaluate("document.getElementById('panel').hidden"),
        true
    );
    page.end();
}

#[test]
fn filters_leave_what_matches_and_colour_by_port() {
    let mut page = Page::of_shop();
    page.browser.fill("#from", "shop/ pay");
    assert_eq!(page.rows(), ["payments"]);
    page.browser.fill("#from", "monitoring");
    assert_eq!(page.rows(), ["grafana", "prometheus"]);
    page.browser.fill("#from", "no such thing");
    assert_eq!(page.rows(), Vec::<String>::new());
    assert_eq!(
        page.browser.evaluate("document.querySelector('.empty').hidden"),
        false
    );
    page.browser.click("#reset");
    assert!(page.rows().len() > 10);
    page.browser.fill("#port", "5432");
    page.browser.evaluate("by('protocol').value = 'TCP'; refresh()");
    assert_eq!(page.state("shop/Deployment/cart", "shop/db-0"), "all");
    assert_eq!(page.state("shop/Deployment/cart", "shop/payments"), "none");
    page.browser.fill("#to", "db-0");
    page.browser.click("#busy");
    assert_eq!(page.rows(), ["cart", "catalog", "db-1"]);
    page.browser.fill("#port", "seven");
    assert_eq!(
        page.browser.evaluate("by('port').getAttribute('aria-invalid')"),
        "true"
    );
    page.end();
}

#[test]
fn everything_can_be_reached_by_keys() {
    let mut page = Page::of_shop();
    let tabbed = "[...document.querySelectorAll('[role=grid], [role=grid] *')].filter(one => one.tabIndex === 0).length";
    assert_eq!(page.browser.evaluate(tabbed), 1);
    page.browser.evaluate("grid.focus()");
    for key in ["ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"] {
        page.browser.press(key, 0);
    }
    assert_eq!(
        page.focused(),
        "kube-system/coredns to monitoring/Deployment/grafana: everything"
    );
    assert_eq!(page.browser.evaluate(tabbed), 1);
    page.browser.press("Enter", 0);
    assert_eq!(page.texts("#panel .verdict"), [" everything"]);
    page.browser.press("Escape", 0);
    assert_eq!(page.browser.evaluate("by('panel').hidden"), true);
    page.browser.press("Home", 2);
    page.browser.press("ArrowLeft", 0);
    assert_eq!(
        page.browser
            .evaluate("document.activeElement.getAttribute('aria-expanded')"),
        "true"
    );
    let before = page.rows().len();
    page.browser.press("Enter", 0);
    assert_eq!(
        page.browser
            .evaluate("document.activeElement.getAttribute('aria-expanded')"),
        "false"
    );
    // The namespace and its one workload became one line.
    assert_eq!(page.rows().len(), before);
    assert!(page.rows().contains(&"kube-system".to_owned()));
    page.browser.press("End", 2);
    assert_eq!(
        page.browser.evaluate("[grid.active.row, grid.active.column]"),
        json!([19, 19])
    );
    page.browser.press("/", 0);
    assert_eq!(page.browser.evaluate("document.activeElement.id"), "from");
    let outline = page
        .browser
        .evaluate("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid");
    page.end();
}

#[test]
fn the_theme_follows_the_system_until_somebody_chooses() {
    let mut page = Page::of_shop();
    let paper = |page: &mut Page| {
        page.browser
            .evaluate("getComputedStyle(document.body).backgroundColor")
            .to_string()
    };
    let system = |page: &mut Page, scheme: &str| {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        page.browser
            .call("Emulation.setEmulatedMedia", &json!({"features": features}));
    };
    system(&mut page, "light");
    let light = paper(&mut page);
    system(&mut page, "dark");
    let dark = paper(&mut page);
    assert_ne!(light, dark);
    page.browser.click("#theme");
    assert_eq!(paper(&mut page), light, "chosen light");
    system(&mut page, "light");
    page.browser.click("#theme");
    assert_eq!(paper(&mut page), dark, "chosen dark");
    page.end();
}

#[test]
fn the_graph_has_every_workload_and_every_connection_between_two() {
    let mut page = Page::of_shop();
    page.browser.click("#tab-graph");
    assert_eq!(page.texts("#graph .node").len(), 16);
    let curves = page.texts("#graph .curve title");
    let curve = "shop/Deployment/cart → shop/db-0".to_owned();
    assert!(curves.contains(&curve), "{curves:?}");
    assert!(!curves.contains(&"shop/Deployment/web → shop/db-0".to_owned()));
    page.browser.evaluate("graph.nodes[graph.active].focus()");
    page.browser.press("ArrowRight", 0);
    page.browser.press("Enter", 0);
    assert_eq!(page.texts("#panel h2"), ["monitoring/Deployment/grafana"]);
    assert_eq!(page.texts("#graph .node.chosen").len(), 1);
    page.browser.fill("#from", "cart");
    assert_eq!(page.texts("#graph .curve").len(), 4);
    page.end();
}

#[test]
fn a_link_shows_the_same_again() {
    let mut page = Page::of_shop();
    page.browser.fill("#to", "db");
    page.browser
        .click(&Page::cell("shop/Deployment/cart", "shop/db-0"));
    let link = page.browser.evaluate("location.hash");
    page.browser.evaluate("location.hash = ''");
    page.browser.frame();
    page.browser.evaluate(&format!("location.hash = {link}"));
    page.browser.frame();
    assert_eq!(page.texts("#panel h2"), ["shop/Deployment/cart → shop/db-0"]);
    assert_eq!(page.browser.evaluate("by('to').value"), "db");
    page.end();
}

#[test]
fn hostile_names_are_only_text() {
    let name = "x/<img src=y onerror=alert(1)>";
    let cluster = snapshot![
        pod(name).ip("10.0.0.1"),
        pod("x/b").ip("10.0.0.2"),
        policy("x/<b>").ingress(accept().port(Protocol::TCP, 80)),
    ];
    let mut page = Page::of(&cluster);
    page.browser.click(&Page::cell("x/b", name));
    assert_eq!(page.texts("#panel h2"), [format!("x/b → {name}")]);
    assert_eq!(page.browser.evaluate("document.images.length"), 0);
    page.end();
}

/// Five hundred workloads in twenty-five namespaces, of two pods each.
fn large() -> Snapshot {
    let mut cluster = snapshot![];
    for number in 0..500u16 {
        let (space, app) = (format!("team-{:02}", number / 20), format!("app-{number:03}"));
        for replica in 0..2u16 {
            let more = snapshot![
                pod(&format!("{space}/{app}-{replica}"))
                    .label("app", &app)
                    .ip(&format!("10.{}.{}.{}", replica, number / 200, number % 200 + 1))
                    .owned_by("Deployment", &app),
            ];
            cluster.pods.extend(more.pods);
        }
        let peer = format!("app=app-{:03}", number / 20 * 20 + (number + 1) % 20);
        let more = snapshot![
            policy(&format!("{space}/{app}"))
                .selects(&format!("app={app}"))
                .ingress(
                    accept()
                        .peer(pods_in(&space, &peer))
                        .port(Protocol::TCP, 8000 + number)
                ),
        ];
        cluster.policies.extend(more.policies);
    }
    cluster
}

#[test]
fn five_hundred_workloads_are_drawn_as_far_as_they_are_seen() {
    let mut page = Page::of(&large());
    let elements = "document.querySelectorAll('*').length";
    assert!(page.browser.evaluate(elements).as_u64().unwrap() < 8000);
    assert_eq!(page.browser.evaluate("grid.rows.length"), 528);
    page.browser.evaluate("grid.focus()");
    page.browser.press("End", 2);
    assert_eq!(
        page.browser.evaluate("[grid.active.row, grid.active.column]"),
        json!([527, 527])
    );
    assert!(page.browser.evaluate(elements).as_u64().unwrap() < 8000);
    page.browser.fill("#from", "app-499");
    page.browser.fill("#to", "app-498");
    assert_eq!(
        page.state("team-24/Deployment/app-499", "team-24/Deployment/app-498"),
        "some"
    );
    page.browser.fill("#from", "app-497");
    assert_eq!(
        page.state("team-24/Deployment/app-497", "team-24/Deployment/app-498"),
        "none"
    );
    let times = page.browser.evaluate(
        "(() => { const start = performance.getEntriesByType('navigation')[0];
            by('from').value = ''; by('to').value = ''; refresh(); const scroll = performance.now();
            for (let at = 0; at < 100; at++) { grid.scroller.scrollTop = at * 97; grid.scroller.scrollLeft = at * 83;
                grid.scroller.dispatchEvent(new Event('scroll')); }
            return { interactive: Math.round(start.domComplete), drawing: Math.round((performance.now() - scroll) / 100) }; })()",
    );
    let size = fs::metadata(page.file()).unwrap().len();
    // For people who read the log; how long it takes is no test.
    let _ = writeln!(
        std::io::stderr(),
        "500 workloads: {size} bytes, interactive after {} ms, a new view drawn in {} ms",
        times["interactive"],
        times["drawing"]
    );
    page.end();
}
