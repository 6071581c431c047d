//! Query parameters, read strictly: an unknown, repeated or unreadable one is a `422`, so that a
//! misspelt filter is not taken for none. Pages: `limit` and an opaque `cursor`.

use std::cell::{Cell, RefCell};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::value::{external_text, sku_key};
use crate::domain::names::SkuKey;
use crate::domain::outcome::FieldError;
use crate::http::problem::Problem;

/// Elements of a page where no `limit` is given, and at most.
const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 500;

/// The parameters of a request, taken one by one; [`Query::finish`] refuses the rest.
#[derive(Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String, Cell<bool>)>,
    errors: RefCell<Vec<FieldError>>,
}

/// How much of a list is asked for: `limit`, and the position after which it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// 1 to 500.
    pub limit: i64,
    /// The parts of the cursor, as [`Page::cursor`] was given them.
    pub after: Option<Vec<String>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, Problem> {
        Ok(Query::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    fn parse(text: &str) -> Query {
        let query = Query {
            pairs: url::form_urlencoded::parse(text.as_bytes())
                .map(|(name, value)| (name.into_owned(), value.into_owned(), Cell::new(false)))
                .collect(),
            errors: RefCell::default(),
        };
        for (i, (name, _, taken)) in query.pairs.iter().enumerate() {
            if query.pairs.iter().take(i).any(|(other, ..)| other == name) {
                taken.set(true);
                query.fault(name, "is given twice");
            }
        }
        query
    }

    fn fault(&self, name: &str, message: impl Into<String>) {
        self.errors.borrow_mut().push(FieldError {
            field: name.chars().filter(|c| !c.is_control()).take(64).collect(),
            message: message.into(),
        });
    }

    fn take(&self, name: &str) -> Option<&str> {
        let (_, value, taken) =
            self.pairs.iter().find(|(n, _, taken)| n == name && !taken.get())?;
        taken.set(true);
        Some(value)
    }

    fn read<T>(&self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        match read(self.take(name)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.fault(name, message);
                None
            }
        }
    }

    /// Text of 1 to 255 characters.
    pub fn text(&self, name: &str) -> Option<String> {
        self.read(name, |text| external_text(text).map(|()| text.to_owned()))
    }

    pub fn sku(&self, name: &str) -> Option<SkuKey> {
        self.read(name, sku_key)
    }

    /// One of a few words.
    pub fn choice<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Option<T> {
        self.read(name, |text| {
            all.iter().copied().find(|t| word(*t) == text).ok_or_else(|| {
                let words: Vec<&str> = all.iter().map(|t| word(*t)).collect();
                format!("must be one of {}", words.join(", "))
            })
        })
    }

    /// `limit` and `cursor` of the list `list`; a cursor of another list is refused.
    pub fn page(&self, list: &str) -> Page {
        let limit = self.read("limit", |text| {
            text.parse::<i64>()
                .ok()
                .filter(|n| (1..=MAX_LIMIT).contains(n) && !text.starts_with('+'))
                .ok_or_else(|| format!("must be an integer from 1 to {MAX_LIMIT}"))
        });
        let after = self.read("cursor", |text| {
            decode(list, text).ok_or_else(|| "is not a cursor of this list".to_owned())
        });
        Page { limit: limit.unwrap_or(DEFAULT_LIMIT), after }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `422 validation_failed` with every fault, unknown parameters among them.
    pub fn finish(self) -> Result<(), Problem> {
        for (name, _, taken) in &self.pairs {
            if !taken.get() {
                self.fault(name, "is not a known parameter");
            }
        }
        let errors = self.errors.into_inner();
        if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(&errors)) }
    }
}

impl Page {
    /// A cursor of the list `list` after an element with this key.
    pub fn cursor(list: &str, key: &[&str]) -> String {
        let mut parts = vec![list];
        parts.extend(key);
        // An array of strings always serialises.
        let text = serde_json::to_vec(&parts).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(text)
    }

    /// A part of the cursor as a number; `422` when the cursor was tampered with.
    ///
    /// # Errors
    /// See above.
    pub fn number(part: &str) -> Result<i64, Problem> {
        part.parse().map_err(|_| Problem::invalid_field("cursor", "is not a cursor of this list"))
    }

    /// The cursor's parts, exactly so many.
    ///
    /// # Errors
    /// `422` when the cursor was tampered with.
    pub fn parts<const N: usize>(&self) -> Result<Option<[&str; N]>, Problem> {
        let Some(after) = &self.after else {
            return Ok(None);
        };
        let parts: Vec<&str> = after.iter().map(String::as_str).collect();
        <[&str; N]>::try_from(parts)
            .map(Some)
            .map_err(|_| Problem::invalid_field("cursor", "is not a cursor of this list"))
    }
}

fn decode(list: &str, text: &str) -> Option<Vec<String>> {
    if text.len() > 2048 {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let mut parts: Vec<String> = serde_json::from_slice(&bytes).ok()?;
    if parts.first().map(String::as_str) != Some(list) || parts.iter().any(|p| p.contains('\0')) {
        return None;
    }
    parts.remove(0);
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::order::State;

    #[test]
    fn a_page_has_fifty_elements_unless_told_and_at_most_five_hundred() {
        let page = |text: &str| {
            let query = Query::parse(text);
            let page = query.page("orders");
            query.finish().map(|()| page.limit)
        };
        assert_eq!(page(""), Ok(50));
        assert_eq!(page("limit=1"), Ok(1));
        assert_eq!(page("limit=500"), Ok(500));
        for bad in ["0", "501", "-1", "x", "", "1.0", "%2B5", "99999999999999999999"] {
            let problem = page(&format!("limit={bad}")).expect_err(bad);
            assert_eq!(problem.body()["errors"][0]["field"], "limit");
        }
    }

    #[test]
    fn a_cursor_comes_back_as_it_was_given_and_only_to_its_list() {
        let cursor = Page::cursor("orders", &["0190", "x:y"]);
        let query = Query::parse(&format!("cursor={cursor}"));
        let page = query.page("orders");
        assert_eq!(page.parts::<2>(), Ok(Some(["0190", "x:y"])));
        assert!(page.parts::<1>().is_err());
        assert!(query.finish().is_ok());
        for text in
            [&format!("cursor={cursor}"), "cursor=%00", "cursor=", "cursor=abc", "cursor=W10"]
        {
            let query = Query::parse(text);
            query.page("refunds");
            let problem = query.finish().expect_err("refused");
            assert_eq!(problem.status.as_u16(), 422, "{text}");
            assert_eq!(problem.body()["errors"][0]["field"], "cursor");
        }
    }

    #[test]
    fn what_is_unknown_repeated_or_not_a_word_of_the_list_is_named() {
        let query = Query::parse("state=payed&stat=paid&sku=%20A%20&sku=B&order_id=a%00b");
        query.choice("state", State::ALL, State::as_str);
        assert_eq!(query.sku("sku"), Some(SkuKey::from("A")));
        query.text("order_id");
        let errors = query.finish().expect_err("refused").body()["errors"].clone();
        let fields: Vec<&str> =
            errors.as_array().expect("a list").iter().filter_map(|e| e["field"].as_str()).collect();
        assert_eq!(fields, ["sku", "state", "order_id", "stat"]);
    }
}
