//! Whether an agent is alive.

use picket_source::Health;

use super::*;

/// What is answered to who asks whether these threads come round.
#[track_caller]
fn check(agent: &Pulse, targets: &[(&str, &Pulse)], code: u16, text: &str) {
    let targets = targets.iter();
    let answers = Answers {
        shared: Shared::new("n", Health::default()),
        metrics: Metrics::default(),
        pulse: agent.clone(),
        targets: targets
            .map(|(name, pulse)| (SmolStr::from(*name), (*pulse).clone()))
            .collect(),
        drops: None,
        tracer: None,
    };
    let (head, body) = answers.health().into_parts();
    let body = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(body.collect());
    assert_eq!(
        (head.status.as_u16(), &body.unwrap().to_bytes()[..]),
        (code, text.as_bytes())
    );
}

#[test]
fn an_agent_is_alive_as_long_as_every_thread_comes_round() {
    let (beating, stuck) = (Pulse::new(), Pulse::of_busy());
    check(&beating, &[("a", &beating), ("b", &beating)], 200, "ok\n");
    check(&beating, &[("a", &beating), ("b", &stuck)], 503, "stuck: b\n");
    check(&beating, &[("a", &stuck), ("b", &stuck)], 503, "stuck: a, b\n");
    check(&stuck, &[("a", &beating)], 503, "stuck\n");
}

#[test]
fn who_comes_round_again_is_alive_again() {
    let pulse = Pulse::of_busy();
    check(&pulse, &[], 503, "stuck\n");
    pulse.beat();
    check(&pulse, &[], 200, "ok\n");
}
