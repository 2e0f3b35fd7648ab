//! A naive model of the retention of freed spans, in the order of its documentation: a vector that is
//! searched each time.

/// A retained span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Number of the span.
    pub span: u32,
    /// Length of the span.
    pub pages: u32,
    /// Time of the deposit.
    pub since_ns: i64,
    /// Whether the span is lazily freed; otherwise it is hot.
    pub is_lazy: bool,
}

/// An action that the rules require for a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Split the span after this number of pages.
    Split(u32, u32),
    /// Free the span lazily.
    LazilyFree(u32),
    /// Discard the span.
    Discard(u32),
}

/// The rules: limits for hot and lazily freed pages, and ages at which spans are lazily freed and
/// discarded.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Largest number of hot pages.
    pub hot_pages: u64,
    /// Parts are multiples of this number of pages; `None` to free only whole spans.
    pub part_pages: Option<u32>,
    /// Largest number of lazily freed pages; `None` for no limit.
    pub lazy_pages: Option<u64>,
    /// Largest number of hot and lazily freed pages together; `None` for no limit.
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
    /// An empty model.
    pub fn new(rules: Rules) -> Model {
        Model { rules, held: Vec::new(), pressure_ns: None }
    }

    /// The retained spans, oldest first.
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    /// Number of lazily freed pages, or of hot pages.
    pub fn pages(&self, is_lazy: bool) -> u64 {
        let of_stage = self.held.iter().filter(|held| held.is_lazy == is_lazy);
        of_stage.map(|held| u64::from(held.pages)).sum()
    }

    /// Adds a freed span.
    pub fn deposit(&mut self, span: u32, pages: u32, now_ns: i64) {
        self.held.push(Held { span, pages, since_ns: now_ns, is_lazy: false });
    }

    /// Removes a span.
    pub fn take(&mut self, span: u32) {
        self.held.retain(|held| held.span != span);
    }

    /// Replaces a span by its successor.
    pub fn replace(&mut self, span: u32, successor: u32, pages: u32) {
        if let Some(held) = self.held.iter_mut().find(|held| held.span == span) {
            (held.span, held.pages) = (successor, pages);
        }
    }

    /// Splits a span into two.
    pub fn split(&mut self, span: u32, pages: u32, other: u32, other_pages: u32) {
        if let Some(place) = self.held.iter().position(|held| held.span == span) {
            self.held[place].pages = pages;
            let half = Held { span: other, pages: other_pages, ..self.held[place] };
            self.held.insert(place + 1, half);
        }
    }

    /// Changes the rules.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Marks all spans for discard.
    pub fn pressure(&mut self, now_ns: i64) {
        self.pressure_ns = Some(now_ns);
    }

    /// All actions that the rules require at `now_ns`: first for spans that are too old, then for
    /// excess pages.
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
            let oldest = self
                .held
                .iter()
                .position(|held| held.is_lazy)
                .expect("some spans are lazily freed");
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
                    // The caller splits the span and calls again.
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
