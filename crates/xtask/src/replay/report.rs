//! Results of the cases, by class, and by class and strategy.

use std::collections::BTreeMap;
use std::fmt;

use super::case::{Case, Class};
use super::engine::Answer;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The engine returned the expected text.
    Correct,
    /// The engine left an overlapping case unchanged as already applied.
    Already,
    Refused,
    Wrong,
    /// The engine could not parse the row.
    Failed,
}

impl Outcome {
    const ALL: [Outcome; 5] =
        [Outcome::Correct, Outcome::Already, Outcome::Refused, Outcome::Wrong, Outcome::Failed];

    pub(crate) fn of(case: &Case, answer: &Answer) -> Outcome {
        let already = answer.strategy.as_deref() == Some("already_applied");
        match answer.status.as_str() {
            "refused" => Outcome::Refused,
            "applied" | "recovered" if answer.text.as_deref() == Some(&case.expected) => Outcome::Correct,
            "applied"
                if already
                    && case.class == Class::Overlapping
                    && answer.text.as_deref() == Some(&case.current) =>
            {
                Outcome::Already
            }
            "applied" | "recovered" => Outcome::Wrong,
            _ => Outcome::Failed,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Outcome::Correct => "correct",
            Outcome::Already => "already",
            Outcome::Refused => "refused",
            Outcome::Wrong => "wrong",
            Outcome::Failed => "failed",
        }
    }
}

#[derive(Default)]
pub(crate) struct Report {
    /// Triples of which no part can be written against the first version.
    pub(crate) unwritable: usize,
    left_out: usize,
    classes: BTreeMap<(Class, Outcome), usize>,
    strategies: BTreeMap<(Class, String, Outcome), usize>,
    micros: Vec<u64>,
    wrong: Vec<String>,
}

impl Report {
    pub(crate) fn add(&mut self, case: &Case, outcome: Outcome, answer: &Answer) {
        *self.classes.entry((case.class, outcome)).or_default() += 1;
        let how = match outcome {
            Outcome::Refused => answer.reason.clone(),
            _ => answer.strategy.clone(),
        };
        *self.strategies.entry((case.class, how.unwrap_or_else(|| "none".into()), outcome)).or_default() += 1;
        self.left_out += usize::from(case.left_out > 0);
        self.micros.push(answer.micros);
        if outcome == Outcome::Wrong {
            self.wrong.push(format!("{} ({})", case.name, answer.strategy.as_deref().unwrap_or("none")));
        }
    }

    pub(crate) fn cases(&self) -> usize {
        self.classes.values().sum()
    }

    /// Wrong results, and rows that the engine could not parse.
    pub(crate) fn wrong(&self) -> usize {
        let bad = [Outcome::Wrong, Outcome::Failed];
        self.classes.iter().filter(|((_, outcome), _)| bad.contains(outcome)).map(|(_, count)| count).sum()
    }

    fn count(&self, class: Class, outcome: Outcome) -> usize {
        self.classes.get(&(class, outcome)).copied().unwrap_or(0)
    }

    /// Both reports of the same cases in one table, with relative times.
    pub(crate) fn beside(&self, other: &Report) -> String {
        let mut table = format!("  side by side {:>7}", "cases");
        for outcome in Outcome::ALL {
            table.push_str(&format!(" {:>15}", format!("{}/peer", outcome.as_str())));
        }
        for class in Class::ALL {
            let total: usize = Outcome::ALL.into_iter().map(|outcome| self.count(class, outcome)).sum();
            table.push_str(&format!("\n  {:<12} {total:>7}", class.as_str()));
            for outcome in Outcome::ALL {
                let both = format!("{}/{}", self.count(class, outcome), other.count(class, outcome));
                table.push_str(&format!(" {both:>15}"));
            }
        }
        let (own, peers) = (self.micros_at(50), other.micros_at(50));
        let ratio = peers as f64 / own.max(1) as f64;
        table.push_str(&format!("\n  microseconds, median: {own}/{peers}, {ratio:.1} times ours"));
        table
    }

    fn micros_at(&self, part: usize) -> u64 {
        let mut micros = self.micros.clone();
        micros.sort_unstable();
        let at = (micros.len() * part / 100).min(micros.len().saturating_sub(1));
        micros.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn wrong_names(&self) -> String {
        self.wrong.iter().take(20).cloned().collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:<12} {:>7}", "class", "cases")?;
        Outcome::ALL.iter().try_for_each(|outcome| write!(f, " {:>8}", outcome.as_str()))?;
        writeln!(f, " {:>9}", "correct")?;
        for class in Class::ALL {
            let count = |outcome| self.count(class, outcome);
            let total: usize = Outcome::ALL.into_iter().map(count).sum();
            write!(f, "  {:<12} {total:>7}", class.as_str())?;
            Outcome::ALL.into_iter().try_for_each(|outcome| write!(f, " {:>8}", count(outcome)))?;
            let share = 100.0 * count(Outcome::Correct) as f64 / total.max(1) as f64;
            writeln!(f, " {share:>8.2}%")?;
        }
        writeln!(
            f,
            "  changes of lines missing in the older text: {} triples omitted, {} cases without some hunks",
            self.unwritable, self.left_out
        )?;
        for ((class, how, outcome), count) in &self.strategies {
            writeln!(f, "    {:<12} {:<9} by {how:<16} {count:>7}", class.as_str(), outcome.as_str())?;
        }
        let [median, p95, most] = [50, 95, 100].map(|part| self.micros_at(part));
        write!(f, "  microseconds: median {median}, p95 {p95}, most {most}")
    }
}
