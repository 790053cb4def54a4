//! What the log says of problems of objects: the first of each sort with their objects, then how many more there are.

use std::collections::BTreeMap;

use kubernetes::schema::Problem;
use provenance::Kind;

/// The number of problems of a sort that are logged at once with their objects.
const FIRST: usize = 10;
/// The number of words that tell one sort from another.
const WORDS: usize = 4;

/// Logs new problems.
pub(crate) fn log_problems(new: &[Problem]) {
    for line in lines(new) {
        tracing::warn!("{line}");
    }
}

/// The lines for new problems.
fn lines(new: &[Problem]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut counts: BTreeMap<(Kind, Vec<&str>), (usize, &Problem)> = BTreeMap::new();
    for problem in new {
        let (count, _) = counts.entry(sort(problem)).or_insert((0, problem));
        *count += 1;
        if *count <= FIRST {
            lines.push(problem.to_string());
        }
    }
    let many = counts.into_values().filter(|(count, _)| *count > FIRST);
    lines.extend(many.map(|(count, first)| {
        let more = count - FIRST;
        format!("{more} more problems like this one: {first}")
    }));
    lines
}

/// What problems of a sort have in common: the kind of object and the first words that are no names and numbers.
fn sort(problem: &Problem) -> (Kind, Vec<&str>) {
    let is_common = |word: &&str| {
        let is_special = |it: char| it.is_ascii_digit() || "\".:/".contains(it);
        let inner = word.trim_end_matches(':');
        !inner.contains(is_special)
    };
    let words = problem.message.split(' ').filter(is_common).take(WORDS);
    (problem.object.kind, words.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use provenance::ObjectKey;

    fn problem(number: usize, message: String) -> Problem {
        let key = ObjectKey::new("shop", &format!("s{number}"));
        let object = Kind::Service.of(&key);
        Problem { object, message }
    }

    #[test]
    fn thousands_of_problems_of_one_sort_are_a_few_lines() {
        let left_out = |number: usize| {
            let message = format!("it is left out: {number} objects of the namespace are older");
            problem(number, message)
        };
        let alias = |number| problem(number, format!("\"h{number}.\" is not a host name: no dot"));
        let mut all: Vec<Problem> = (0..3000).map(left_out).collect();
        all.extend((0..3).map(alias));
        let lines = lines(&all);
        assert_eq!(lines.len(), FIRST + 3 + 1, "{lines:?}");
        assert!(lines[0].starts_with("Service shop/s0: it is left out: "));
        assert_eq!(lines[FIRST], all[3000].to_string());
        let last = "2990 more problems like this one: Service shop/s0: it is left out: 0 objects of the namespace are older";
        assert_eq!(lines[FIRST + 3], last);
        assert_eq!(super::lines(&all[..FIRST]).len(), FIRST);
    }
}
