//! What the measurements of whole servers share: which parts of them are wanted, and the figure that stands for several rounds.

use clap::ValueEnum;

/// How often each contender is measured.
pub(crate) const ROUNDS: usize = 5;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Parts<P: ValueEnum + Send + Sync + 'static> {
    /// Only these parts
    #[arg(value_enum)]
    parts: Vec<P>,
}

impl<P: ValueEnum + Copy + PartialEq + Send + Sync + 'static> Parts<P> {
    /// Whether this part is wanted; all of them are if none is named.
    pub(crate) fn has(&self, part: P) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// The median of the figures, of which there must be some.
pub(crate) fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[(figures.len() - 1) / 2]
}
