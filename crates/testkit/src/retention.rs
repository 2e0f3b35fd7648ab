//! Retention of freed spans, told as its documentation tells it: a vector, searched anew each time.

/// A retained span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its name.
    pub span: u32,
    /// Its length.
    pub pages: u32,
    /// When it was deposited.
    pub since_ns: i64,
    /// Whether it is lazily freed; hot otherwise.
    pub is_lazy: bool,
}

/// What is to be done with a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To be cut after so many pages.
    Split(u32, u32),
    /// To be lazily freed.
    LazilyFree(u32),
    /// To be discarded.
    Discard(u32),
}

/// The rules: pages held hot and lazily freed, and the ages at which a span becomes so and goes.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Pages held hot at most.
    pub hot_pages: u64,
    /// Pages that parts are multiples of; none: no parts.
    pub part_pages: Option<u32>,
    /// Pages held lazily freed at most; none: as many as there are.
    pub lazy_pages: Option<u64>,
    /// Pages held hot and lazily freed at most; none: no limit.
    pub held_pages: Option<u64>,
    /// Age at which a span is lazily freed.
    pub lazy_after_ns: Option<i64>,
    /// Age at which a span is discarded.
    pub discard_after_ns: Option<i64>,
}

/// Spans from the oldest to the youngest.
#[derive(Debug)]
pub struct Model {
    rules: Rules,
    held: Vec<Held>,
    pressure_ns: Option<i64>,
}

impl Model {
    /// Holds nothing yet.
    pub fn new(rules: Rules) -> Model {
        Model { rules, held: Vec::new(), pressure_ns: None }
    }

    /// What is held, oldest first.
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    /// Pages that are lazily freed, or those that are hot.
    pub fn pages(&self, is_lazy: bool) -> u64 {
        let of_stage = self.held.iter().filter(|held| held.is_lazy == is_lazy);
        of_stage.map(|held| u64::from(held.pages)).sum()
    }

    /// The span was freed.
    pub fn deposit(&mut self, span: u32, pages: u32, now_ns: i64) {
        self.held.push(Held { span, pages, since_ns: now_ns, is_lazy: false });
    }

    /// The span is no longer held.
    pub fn take(&mut self, span: u32) {
        self.held.retain(|held| held.span != span);
    }

    /// The span goes on as another.
    pub fn replace(&mut self, span: u32, successor: u32, pages: u32) {
        if let Some(held) = self.held.iter_mut().find(|held| held.span == span) {
            (held.span, held.pages) = (successor, pages);
        }
    }

    /// The span falls into two.
    pub fn split(&mut self, span: u32, pages: u32, other: u32, other_pages: u32) {
        if let Some(place) = self.held.iter().position(|held| held.span == span) {
            self.held[place].pages = pages;
            let half = Held { span: other, pages: other_pages, ..self.held[place] };
            self.held.insert(place + 1, half);
        }
    }

    /// Other rules from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// What is held is to be discarded.
    pub fn pressure(&mut self, now_ns: i64) {
        self.pressure_ns = Some(now_ns);
    }

    /// Everything that is to be done at `now_ns`: what is too old first, then what is too much.
    pub fn actions(&mut self, now_ns: i64) -> Vec<Action> {
        let mut actions = Vec::new();
        let Rules {
            hot_pages,
            part_pages,
            lazy_pages,
            held_pages,
            lazy_after_ns,
            discard_after_ns,
        } = self.rules;
        let is_reached =
            |since: i64, age: Option<i64>| age.is_some_and(|age| now_ns - since >= age);
        let pressure_ns = self.pressure_ns;
        let is_discarded = |held: &Held| {
            pressure_ns.is_some_and(|time| held.since_ns <= time)
                || is_reached(held.since_ns, discard_after_ns)
        };
        for is_lazy in [true, false] {
            let old = self.held.iter().filter(|held| held.is_lazy == is_lazy && is_discarded(held));
            actions.extend(old.map(|held| Action::Discard(held.span)));
        }
        self.held.retain(|held| !is_discarded(held));
        let is_too_much = |lazy: u64, hot: u64| {
            lazy_pages.is_some_and(|limit| lazy > limit)
                || held_pages.is_some_and(|limit| lazy > 0 && lazy + hot > limit)
        };
        while is_too_much(self.pages(true), self.pages(false)) {
            let oldest = self.held.iter().position(|held| held.is_lazy).expect("some are");
            actions.push(Action::Discard(self.held.remove(oldest).span));
        }
        while let Some(oldest) = self.held.iter().position(|held| !held.is_lazy) {
            let Held { span, pages, since_ns, .. } = self.held[oldest];
            let over = self.pages(false).saturating_sub(hot_pages);
            if !is_reached(since_ns, lazy_after_ns) {
                if over == 0 {
                    break;
                }
                let parts = part_pages.map(|part| over.div_ceil(part.into()) * u64::from(part));
                if let Some(part) = parts.filter(|&part| part < pages.into()) {
                    // Whoever asked splits it, and asks again.
                    actions.push(Action::Split(span, part as u32));
                    break;
                }
            }
            let others = self.pages(false) - u64::from(pages);
            if is_too_much(self.pages(true) + u64::from(pages), others) {
                self.held.remove(oldest);
                actions.push(Action::Discard(span));
            } else {
                self.held[oldest].is_lazy = true;
                actions.push(Action::LazilyFree(span));
            }
        }
        actions
    }
}
