//! Lists with filters: one text for each set of filters that may be given, so that the planner sees
//! only conditions that are meant.

use crate::storage::sql::{Arg, Sql};

/// A list's texts, by which of its conditions are given.
pub struct Texts(Vec<Sql>);

/// The parameters of a condition; `None`: the condition is not given.
pub type Given = Option<Vec<Arg>>;

impl Texts {
    /// `select … WHERE condition AND … order_by LIMIT`. Each condition has a `?` for each of its
    /// parameters; there are few conditions, and all their subsets become texts.
    pub fn new(select: &str, conditions: &[&str], order_by: &str) -> Texts {
        let subsets = 0_u32..(1 << conditions.len());
        let texts = subsets.map(|subset| {
            let given = conditions
                .iter()
                .enumerate()
                .filter(|(i, _)| subset & (1 << i) != 0)
                .map(|(_, condition)| format!(" AND {condition}"))
                .collect::<String>();
            Sql::new(numbered(&format!("{select} WHERE TRUE{given} {order_by} LIMIT ?")))
        });
        Texts(texts.collect())
    }

    /// The text for the conditions that are given, in the order in which they were declared, and
    /// its parameters. One row more than `limit` is asked for.
    pub fn pick(&'static self, given: Vec<Given>, limit: i64) -> Option<(&'static Sql, Vec<Arg>)> {
        let subset = given
            .iter()
            .enumerate()
            .filter(|(_, condition)| condition.is_some())
            .fold(0_usize, |subset, (i, _)| subset | (1 << i));
        let mut args: Vec<Arg> = given.into_iter().flatten().flatten().collect();
        args.push(Arg::from(limit.saturating_add(1)));
        Some((self.0.get(subset)?, args))
    }
}

/// Replaces each `?` by `$1`, `$2` …
fn numbered(text: &str) -> String {
    let mut parts = text.split('?');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (i, part) in (1..).zip(parts) {
        out.push_str(&format!("${i}{part}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    static LIST: LazyLock<Texts> = LazyLock::new(|| {
        Texts::new("SELECT a FROM t", &["a < ?", "b IS NULL", "(c, d) = (?, ?)"], "ORDER BY a")
    });

    #[test]
    fn only_what_is_given_is_asked() {
        let text = |given| LIST.pick(given, 10).map(|(sql, args)| (sql.sqlite.clone(), args.len()));
        assert_eq!(
            text(vec![None, None, None]),
            Some(("SELECT a FROM t WHERE TRUE ORDER BY a LIMIT $1".to_owned(), 1))
        );
        assert_eq!(
            text(vec![Some(vec![1.into()]), None, Some(vec![2.into(), 3.into()])]),
            Some((
                "SELECT a FROM t WHERE TRUE AND a < $1 AND (c, d) = ($2, $3) ORDER BY a LIMIT $4"
                    .to_owned(),
                4
            ))
        );
        assert_eq!(
            text(vec![None, Some(vec![]), None]),
            Some(("SELECT a FROM t WHERE TRUE AND b IS NULL ORDER BY a LIMIT $1".to_owned(), 1))
        );
    }
}
