//! JSON objects, member by member, with the path of every fault.
//!
//! The text is checked as JSON once, as a whole; members are then looked at as raw text
//! (`serde_json::value::RawValue`), only as deep as an endpoint asks, so that depth is bounded by
//! the endpoint and no number is converted before its text was judged.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::value::Value;
use crate::domain::outcome::FieldError;
use crate::http::problem::Problem;

/// So many faults of one request are told.
const MAX_ERRORS: usize = 100;
/// No object that we read has more members.
const MAX_MEMBERS: usize = 100;

/// Collects the faults of one request.
#[derive(Debug, Default)]
pub struct Report(RefCell<Vec<FieldError>>);

impl Report {
    pub fn add(&self, field: impl Into<String>, message: impl Into<String>) {
        let mut errors = self.0.borrow_mut();
        if errors.len() < MAX_ERRORS {
            errors.push(FieldError { field: field.into(), message: message.into() });
        }
    }

    /// The value, unless something was at fault. `None` goes with a reported fault.
    ///
    /// # Errors
    /// `422 validation_failed` with every fault.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problem> {
        let errors = self.0.into_inner();
        match value {
            Some(value) if errors.is_empty() => Ok(value),
            Some(_) => Err(Problem::invalid(&errors)),
            None if errors.is_empty() => Err(Problem::invalid_field("", "is not valid")),
            None => Err(Problem::invalid(&errors)),
        }
    }
}

/// Where a value stands in the body. It is put into words only for what is at fault.
#[derive(Clone)]
pub(super) enum Path {
    Body,
    Member(Rc<Path>, &'static str),
    Element(Rc<Path>, usize),
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Body => Ok(()),
            Path::Member(of, name) if matches!(**of, Path::Body) => f.write_str(name),
            Path::Member(of, name) => write!(f, "{of}.{name}"),
            Path::Element(of, i) => write!(f, "{of}[{i}]"),
        }
    }
}

/// An object whose members are taken one by one; what is left over is unknown.
pub struct Object<'a> {
    path: Rc<Path>,
    members: Vec<Member<'a>>,
    report: &'a Report,
}

struct Member<'a> {
    name: Cow<'a, str>,
    raw: &'a RawValue,
    taken: Cell<bool>,
}

impl<'a> Object<'a> {
    /// The body as an object; an empty body is an empty object.
    ///
    /// # Errors
    /// `400 malformed_request` with the position when it is not JSON, `422` when not an object.
    pub fn of_body(text: &'a str, report: &'a Report) -> Result<Object<'a>, Problem> {
        let text = if text.is_empty() { "{}" } else { text };
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| {
            let (line, column) = (e.line(), e.column());
            let what = e.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            Problem::malformed(format!("not JSON at line {line}, column {column}: {what}"))
        })?;
        Object::read(Rc::new(Path::Body), raw, report)
            .ok_or_else(|| Problem::invalid_field("", "must be a JSON object"))
    }

    /// `None` when it is not an object (reported).
    pub(super) fn read(
        path: Rc<Path>,
        raw: &'a RawValue,
        report: &'a Report,
    ) -> Option<Object<'a>> {
        if !raw.get().starts_with('{') {
            report.add(path.to_string(), "must be an object");
            return None;
        }
        let members = match serde_json::from_str::<Members<'a>>(raw.get()) {
            Ok(members) => members.0,
            Err(e) => {
                report.add(path.to_string(), format!("is not readable: {e}"));
                return None;
            }
        };
        let object = Object { path, members, report };
        object.find_duplicates();
        Some(object)
    }

    fn find_duplicates(&self) {
        if self.members.len() > MAX_MEMBERS {
            self.report.add(self.path.to_string(), "has too many members");
            self.members.iter().for_each(|m| m.taken.set(true));
            return;
        }
        for (i, member) in self.members.iter().enumerate() {
            if self.members.iter().take(i).any(|m| m.name == member.name) {
                member.taken.set(true);
                self.report.add(self.path_of(&member.name), "is given twice");
            }
        }
    }

    fn path_of(&self, name: &str) -> String {
        let mut path = self.path.to_string();
        if !path.is_empty() {
            path.push('.');
        }
        // A name is the caller's: shown, but neither long nor with control characters.
        if name.len() <= 64 && name.bytes().all(|b| b.is_ascii_graphic()) {
            path.push_str(name);
        } else {
            path.extend(name.chars().filter(|c| !c.is_control()).take(64));
        }
        path
    }

    fn take(&self, name: &'static str) -> Option<Value<'a>> {
        let member = self.members.iter().find(|m| m.name == name && !m.taken.get())?;
        member.taken.set(true);
        Some(Value::new(Path::Member(Rc::clone(&self.path), name), member.raw, self.report))
    }

    /// A member that must be there; its absence is reported.
    pub fn required(&self, name: &'static str) -> Option<Value<'a>> {
        let value = self.take(name);
        if value.is_none() {
            self.report.add(self.path_of(name), "is required");
        }
        value
    }

    /// A member that may be absent.
    pub fn optional(&self, name: &'static str) -> Option<Value<'a>> {
        self.take(name)
    }

    /// A member that may be absent or null.
    pub fn nullable(&self, name: &'static str) -> Option<Value<'a>> {
        self.take(name).filter(|value| !value.is_null())
    }

    /// Reports a fault of a member, also of an absent one.
    pub fn fault(&self, name: &str, message: impl Into<String>) {
        self.report.add(self.path_of(name), message);
    }

    /// Reports a fault of the object as a whole.
    pub fn fault_itself(&self, message: impl Into<String>) {
        self.report.add(self.path.to_string(), message);
    }

    /// Reports every member that nobody asked for.
    pub fn finish(self) {
        for member in self.members.iter().filter(|m| !m.taken.get()) {
            self.report.add(self.path_of(&member.name), "is not a known field");
        }
    }
}

struct Members<'a>(Vec<Member<'a>>);

/// A member's name: as it stands in the body, unless something in it is escaped.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Vec<Member<'de>>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, raw)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.push(Member { name: name.0, raw, taken: Cell::new(false) });
                    if members.len() > MAX_MEMBERS {
                        // Enough to refuse it; the rest is only skipped.
                        while map.next_entry::<serde::de::IgnoredAny, &'de RawValue>()?.is_some() {}
                    }
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Collect).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(text: &str, read: impl FnOnce(&Object<'_>)) -> serde_json::Value {
        let report = Report::default();
        let body = Object::of_body(text, &report).expect("an object");
        read(&body);
        body.finish();
        match report.finish(Some(())) {
            Ok(()) => json!([]),
            Err(problem) => problem.body()["errors"].clone(),
        }
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_position() {
        let report = Report::default();
        let Err(problem) = Object::of_body("{\n  \"a\": nul }", &report) else {
            panic!("read");
        };
        assert_eq!(problem.code, "malformed_request");
        assert!(problem.detail.contains("line 2, column 11"), "{}", problem.detail);
        for text in
            ["{", "{\"a\":1}}", "{'a':1}", "{\"a\":NaN}", "{\"a\":01}", "\u{feff}{}", "{\"a\":1,}"]
        {
            let report = Report::default();
            let problem = Object::of_body(text, &report).err().expect("refused");
            assert_eq!(problem.code, "malformed_request", "{text}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for text in ["[]", "1", "\"x\"", "null"] {
            let report = Report::default();
            let problem = Object::of_body(text, &report).err().expect("refused");
            assert_eq!(problem.status.as_u16(), 422, "{text}");
        }
    }

    #[test]
    fn unknown_repeated_and_missing_members_are_all_named_at_once() {
        let faults = faults(r#"{"a":1,"a":2,"surplus":{"x":[1]}}"#, |body| {
            body.optional("a");
            body.required("b");
        });
        assert_eq!(
            faults,
            json!([
                {"field": "a", "message": "is given twice"},
                {"field": "b", "message": "is required"},
                {"field": "surplus", "message": "is not a known field"},
            ])
        );
    }

    #[test]
    fn a_body_of_a_hundred_thousand_members_is_refused_briefly() {
        let members: Vec<String> = (0..100_000).map(|i| format!("\"k{i}\":0")).collect();
        let faults = faults(&format!("{{{}}}", members.join(",")), |_| {});
        assert_eq!(faults, json!([{"field": "", "message": "has too many members"}]));
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        let faults = faults(&deep, |_| {});
        assert_eq!(faults, json!([{"field": "a", "message": "is not a known field"}]));
    }
}
