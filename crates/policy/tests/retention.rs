//! Retention against its naive model under random histories, and its limits of memory and time.

use policy::retention::{
    Action, CATALOG, Entry, Retention, Rules, Span, Stage, hot_bytes_for, lazy_bytes_for,
};
use proptest::prelude::*;
use testkit::retention as naive;
use types::{Bytes, Nanos, PAGE_BYTES};

const SPANS: u32 = 40;
/// The names from `SPANS` to here are for rests of split spans.
const NAMES: u32 = 4000;
const SECOND: i64 = 1_000_000_000;

/// One step of a history; spans and pages are taken modulo what is possible.
#[derive(Clone, Copy, Debug)]
enum Step {
    Deposit(u32, u32),
    Take(u32),
    Replace(u32, u32, u32),
    Split(u32, u32, u32),
    Wait(i64),
    Pressure,
    Limit(u64, Option<u64>, Option<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (span, pages) = (0..SPANS, 1..60_u32);
    let step = prop_oneof![
        4 => (span.clone(), pages.clone()).prop_map(|(span, pages)| Step::Deposit(span, pages)),
        3 => span.clone().prop_map(Step::Take),
        1 => (span.clone(), span.clone(), pages.clone())
            .prop_map(|(span, successor, pages)| Step::Replace(span, successor, pages)),
        1 => (span.clone(), span, pages).prop_map(|(span, other, pages)| Step::Split(span, other, pages)),
        3 => (0..2 * SECOND).prop_map(Step::Wait),
        1 => Just(Step::Pressure),
        1 => (0..400_u64, prop::option::of(0..200_u64), prop::option::of(0..400_u64))
            .prop_map(|(hot, lazy, held)| Step::Limit(hot, lazy, held)),
    ];
    prop::collection::vec(step, 1..300)
}

fn model_rules(rules: Rules) -> naive::Rules {
    naive::Rules {
        hot_pages: rules.hot_bytes.pages(),
        part_pages: rules.part_pages,
        lazy_pages: rules.lazy_bytes.map(Bytes::pages),
        held_pages: rules.held_bytes.map(Bytes::pages),
        lazy_after_ns: rules.lazy_after.map(|age| age.0),
        discard_after_ns: rules.discard_after.map(|age| age.0),
    }
}

/// The retention and its model, side by side.
struct Pair {
    entries: Vec<Entry>,
    retention: Retention,
    model: naive::Model,
    now: i64,
}

impl Pair {
    fn new(rules: Rules) -> Pair {
        let entries = vec![Entry::default(); NAMES as usize];
        let model = naive::Model::new(model_rules(rules));
        Pair { entries, retention: Retention::new(rules), model, now: 0 }
    }

    fn holds(&self, span: u32) -> bool {
        self.model.held().iter().any(|held| held.span == span)
    }

    /// A span that is not retained, the first from `wish` on.
    fn absent(&self, wish: u32) -> Option<u32> {
        (0..SPANS).map(|step| (wish + step) % SPANS).find(|&span| !self.holds(span))
    }

    fn step(&mut self, step: Step) {
        let Pair { entries, retention, model, .. } = self;
        match step {
            Step::Deposit(span, pages) => {
                if let Some(span) = self.absent(span) {
                    let now = self.now;
                    self.retention.deposit(&mut self.entries, Span(span), pages, Nanos(now));
                    self.model.deposit(span, pages, now);
                }
            }
            Step::Take(span) => {
                let expected = model.held().iter().find(|held| held.span == span);
                let expected = expected.map_or(Stage::Absent, stage);
                assert_eq!(retention.take(entries, Span(span)), expected);
                model.take(span);
            }
            Step::Replace(span, successor, pages) => {
                let successor = if self.holds(successor) { span } else { successor };
                self.retention.replace(&mut self.entries, Span(span), Span(successor), pages);
                self.model.replace(span, successor, pages);
            }
            Step::Split(span, other, pages) => {
                if let Some(other) = self.absent(other).filter(|&other| other != span) {
                    let entries = &mut self.entries;
                    self.retention.split(entries, Span(span), pages, Span(other), pages + 1);
                    self.model.split(span, pages, other, pages + 1);
                }
            }
            Step::Wait(time) => self.now += time,
            Step::Pressure => {
                retention.pressure(Nanos(self.now));
                model.pressure(self.now);
            }
            Step::Limit(hot_pages, lazy_pages, held_pages) => {
                let bytes = |pages| Bytes(pages * PAGE_BYTES);
                let (hot_bytes, lazy_bytes) = (bytes(hot_pages), lazy_pages.map(bytes));
                let held_bytes = held_pages.map(bytes);
                let rules = Rules { hot_bytes, lazy_bytes, held_bytes, ..*retention.rules() };
                retention.set_rules(rules);
                model.set_rules(model_rules(rules));
            }
        }
    }

    /// The actions due now, on which both agree.
    fn actions(&mut self) -> Vec<Action> {
        let mut all = Vec::new();
        loop {
            let actions = self.actions_to_split();
            let expected: Vec<Action> =
                self.model.actions(self.now).into_iter().map(named).collect();
            assert_eq!(actions, expected);
            all.extend(&actions);
            let Some(&Action::Split(span, pages)) = actions.last() else { return all };
            let whole = self.model.held().iter().find(|held| held.span == span.0);
            let whole = whole.expect("what is split is held").pages;
            let rest = (SPANS..NAMES).find(|&name| !self.holds(name)).expect("a name is free");
            self.retention.split(&mut self.entries, span, pages, Span(rest), whole - pages);
            self.model.split(span.0, pages, rest, whole - pages);
        }
    }

    /// The next actions, up to one after which the driver must act before it continues.
    fn actions_to_split(&mut self) -> Vec<Action> {
        let (now, mut actions) = (Nanos(self.now), Vec::new());
        while let Some(action) = self.retention.next_action(&mut self.entries, now) {
            actions.push(action);
            if matches!(action, Action::Split(..)) {
                break;
            }
        }
        actions
    }
}

fn stage(held: &naive::Held) -> Stage {
    if held.is_lazy { Stage::Lazy } else { Stage::Hot }
}

fn named(action: naive::Action) -> Action {
    match action {
        naive::Action::Split(span, pages) => Action::Split(Span(span), pages),
        naive::Action::LazilyFree(span) => Action::LazilyFree(Span(span)),
        naive::Action::Discard(span) => Action::Discard(Span(span)),
    }
}

fn all_rules() -> Vec<Rules> {
    let hot_bytes = Bytes(300 * PAGE_BYTES);
    let catalog = CATALOG.iter().map(|row| (row.build)(hot_bytes));
    let whole = Rules { part_pages: None, ..Rules::decay(hot_bytes) };
    catalog.chain([whole]).collect()
}

proptest! {
    #[test]
    fn retention_equals_its_model(steps in steps()) {
        for rules in all_rules() {
            let mut pair = Pair::new(rules);
            for &step in &steps {
                pair.step(step);
                pair.actions();
                prop_assert_eq!(pair.retention.hot_pages(), pair.model.pages(false));
                prop_assert_eq!(pair.retention.lazy_pages(), pair.model.pages(true));
                let oldest = pair.model.held().first().map(|held| Span(held.span));
                prop_assert_eq!(pair.retention.oldest(&pair.entries), oldest);
            }
        }
    }

    #[test]
    fn no_action_comes_before_it_is_due(steps in steps()) {
        for rules in all_rules() {
            let mut pair = Pair::new(rules);
            for &step in &steps {
                pair.step(step);
                pair.actions();
                let Some(due) = pair.retention.due(&pair.entries) else { continue };
                prop_assert!(due.0 > pair.now, "due, yet nothing was left to do");
                let now = Nanos(due.0 - 1);
                prop_assert_eq!(pair.retention.next_action(&mut pair.entries, now), None);
                pair.now = due.0;
                prop_assert!(!pair.actions().is_empty(), "nothing to do when due");
            }
        }
    }

    #[test]
    fn held_memory_stays_below_its_limits_and_idle_memory_goes(steps in steps()) {
        let mut pair = Pair::new(Rules::decay(Bytes(100 * PAGE_BYTES)));
        for &step in &steps {
            pair.step(step);
            pair.actions();
            let rules = *pair.retention.rules();
            let hot_pages = pair.retention.hot_pages();
            prop_assert!(hot_pages <= rules.hot_bytes.pages());
            let most = rules.lazy_bytes.map_or(u64::MAX, Bytes::pages);
            prop_assert!(pair.retention.lazy_pages() <= most);
            let held = pair.retention.lazy_pages() + hot_pages;
            let most = rules.held_bytes.map_or(u64::MAX, Bytes::pages);
            prop_assert!(held <= most || pair.retention.lazy_pages() == 0);
        }
        pair.now += 5 * SECOND;
        pair.actions();
        prop_assert_eq!((pair.retention.hot_pages(), pair.retention.lazy_pages()), (0, 0));
        prop_assert_eq!(pair.retention.due(&pair.entries), None);
    }
}

#[test]
fn a_small_excess_lazily_frees_one_part_at_most() {
    let mut entries = vec![Entry::default(); 3];
    let mut retention = Retention::new(Rules::decay(Bytes(1000 * PAGE_BYTES)));
    retention.deposit(&mut entries, Span(0), 1001, Nanos(0));
    assert_eq!(retention.next_action(&mut entries, Nanos(0)), Some(Action::Split(Span(0), 256)));
    retention.split(&mut entries, Span(0), 256, Span(1), 745);
    assert_eq!(retention.next_action(&mut entries, Nanos(0)), Some(Action::LazilyFree(Span(0))));
    assert_eq!(retention.next_action(&mut entries, Nanos(0)), None);
    assert_eq!((retention.hot_pages(), retention.lazy_pages()), (745, 256));
}

#[test]
fn a_span_beyond_the_entries_is_not_retained() {
    let mut entries = vec![Entry::default(); 2];
    let mut retention = Retention::new(Rules::decay(Bytes(1 << 20)));
    retention.deposit(&mut entries, Span(2), 5, Nanos(0));
    assert_eq!((retention.hot_pages(), retention.oldest(&entries)), (0, None));
    assert_eq!(retention.take(&mut entries, Span(u32::MAX)), Stage::Absent);
}

#[test]
fn hot_memory_is_a_share_of_available_memory() {
    assert_eq!(hot_bytes_for(Bytes(200 << 20)), Bytes((200 << 20) / 16));
    assert_eq!(hot_bytes_for(Bytes(16 << 30)), Bytes(32 << 20));
    assert_eq!(lazy_bytes_for(Bytes(200 << 20)), Bytes((200 << 20) / 16));
}
