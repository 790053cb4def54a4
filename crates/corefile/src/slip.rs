//! The word that a misspelt one was probably meant to be.

/// Shorter words are not suggested: they are one edit away from too many others.
const SHORTEST: usize = 3;

/// The first of the words that `text` may be a misspelling of: they differ in one character that is missing, added or
/// changed, or in two neighbours that are swapped.
pub fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let is_meant =
        |word: &&str| word.len() >= SHORTEST && is_slip(text.as_bytes(), word.as_bytes());
    words.into_iter().find(is_meant)
}

/// Whether one edit makes them equal.
fn is_slip(left: &[u8], right: &[u8]) -> bool {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[common..], &right[common..]);
    match (left, right) {
        ([_, left_rest @ ..], _) if left_rest == right => true,
        (_, [_, right_rest @ ..]) if left == right_rest => true,
        ([_, left_rest @ ..], [_, right_rest @ ..]) if left_rest == right_rest => true,
        ([a, b, left_rest @ ..], [c, d, right_rest @ ..]) => {
            a == d && b == c && left_rest == right_rest
        }
        _ => false,
    }
}
