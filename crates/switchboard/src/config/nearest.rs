//! What somebody may have meant who wrote a word that is none of ours.

/// The word that is most like `word`, if any is like it.
pub(crate) fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |other: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &other.to_lowercase());
    let likely = words.into_iter().map(|other| (distance(other), other)).min_by_key(|(distance, _)| *distance);
    likely.filter(|(distance, other)| *distance <= 1 + word.len().min(other.len()) / 4).map(|(_, other)| other)
}
