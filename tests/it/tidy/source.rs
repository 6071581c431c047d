//! Rust text as the tidiness rules see it: comments and literals apart from code, the rooms that a
//! file uses, and where functions begin and end. Made for text that rustfmt has formatted; leaves out
//! macros that make names.

use std::collections::BTreeSet;

/// A file's text in two parts, each as long as the whole, line for line.
pub struct Parts {
    /// The text with comments and the insides of literals blanked.
    pub code: String,
    /// The insides of literals with all else blanked.
    pub literals: String,
}

/// Takes code and literals apart.
pub fn parts(text: &str) -> Parts {
    let mut parts = Parts {
        code: String::new(),
        literals: String::new(),
    };
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let before = parts.code.chars().next_back();
        let (kind, length) = match token(rest, before) {
            Some(found) => found,
            None => (Kind::Code, next.len_utf8()),
        };
        let (taken, after) = rest.split_at(length);
        let blank = |keep: bool| {
            taken
                .chars()
                .map(move |c| if keep || c == '\n' { c } else { ' ' })
                .collect::<String>()
        };
        parts.code.push_str(&blank(kind == Kind::Code));
        parts.literals.push_str(&blank(kind == Kind::Literal));
        rest = after;
    }
    parts
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// The comment or literal that `rest` begins with, and its length.
fn token(rest: &str, before: Option<char>) -> Option<(Kind, usize)> {
    let until = |from: usize, end: &str| {
        let tail = rest.get(from..).unwrap_or_default();
        tail.find(end)
            .map_or(rest.len(), |at| from + at + end.len())
    };
    if rest.starts_with("//") {
        return Some((Kind::Comment, rest.find('\n').unwrap_or(rest.len())));
    }
    if rest.starts_with("/*") {
        return Some((Kind::Comment, until(2, "*/")));
    }
    if rest.starts_with('r') && !before.is_some_and(is_word) {
        let hashes = rest[1..].bytes().take_while(|b| *b == b'#').count();
        if rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            return Some((Kind::Literal, until(2 + hashes, &end)));
        }
    }
    if rest.starts_with('"') {
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        return Some((Kind::Literal, end.map_or(rest.len(), |(at, _)| at + 1)));
    }
    // A character, and not a lifetime.
    let mut chars = rest.strip_prefix('\'')?.chars();
    match (chars.next()?, chars.next()?) {
        ('\\', _) => Some((Kind::Literal, until(3, "'"))),
        (c, '\'') => Some((Kind::Literal, c.len_utf8() + 2)),
        _ => None,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The code without the unit tests that stand at its end.
pub fn without_tests(code: &str) -> &str {
    let tests = code.find("\n#[cfg(test)]\nmod tests {");
    tests.and_then(|at| code.get(..at)).unwrap_or(code)
}

/// Whether `word` stands in the code as a path's first part.
pub fn names_crate(code: &str, word: &str) -> bool {
    let path = format!("{word}::");
    let import = format!("use {word};");
    code.contains(&import)
        || code.match_indices(&path).any(|(at, _)| {
            let before = code.get(..at).and_then(|b| b.chars().next_back());
            !before.is_some_and(|c| is_word(c) || c == ':')
        })
}

/// The first parts of all `crate::…` paths, also of grouped ones.
pub fn rooms_used(code: &str) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for (at, path) in code.match_indices("crate::") {
        let before = code.get(..at).and_then(|b| b.chars().next_back());
        if before.is_some_and(is_word) {
            continue;
        }
        let after = code.get(at + path.len()..).unwrap_or_default();
        match after.strip_prefix('{') {
            Some(group) => rooms.extend(group_heads(group)),
            None => {
                rooms.insert(first_word(after));
            }
        }
    }
    rooms
}

fn first_word(text: &str) -> String {
    text.chars()
        .take_while(|c| is_word(*c) || *c == '*')
        .collect()
}

/// The heads of `a, b::c, d::{e, f}}`.
fn group_heads(group: &str) -> Vec<String> {
    let (mut depth, mut heads, mut head) = (0_usize, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.push(std::mem::take(&mut head)),
            c if depth == 0 => head.push(c),
            _ => {}
        }
    }
    heads.push(head);
    heads
        .iter()
        .map(|h| first_word(h.trim()))
        .filter(|h| !h.is_empty())
        .collect()
}

/// Each function with its first line, from 1, and its number of lines.
pub fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let same_depth = |l: &&str| l.len() > indent && l.len() - l.trim_start().len() == indent;
        let head = line.trim_end();
        if head.ends_with(';') || head.ends_with('}') {
            continue;
        }
        // Formatted text closes a body, or ends a declaration, at the depth where it began.
        let end = lines
            .iter()
            .enumerate()
            .skip(at + 1)
            .find(|(_, l)| same_depth(l) && (l.trim() == "}" || l.trim_end().ends_with(';')));
        let last = end.map_or(lines.len(), |(last, _)| last + 1);
        found.push((name, at + 1, last - at));
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = before.split_whitespace().all(|word| {
        matches!(word, "const" | "async" | "unsafe" | "extern") || word.starts_with("pub")
    });
    let name = first_word(after);
    (qualifiers && !name.is_empty()).then_some(name)
}
