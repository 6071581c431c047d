//! Code that checks the code: layers, homes of crates, lengths, opening comments, pairs of
//! migrations. The rules are in `rules`; here they are applied to the tree, and each is shown a text
//! that breaks it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

mod rules;
mod source;

/// The repository's `.rs` files under a folder: path from the root, and text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut open, mut found) = (vec![root.join(folder)], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(root).expect("inside").to_str().expect("UTF-8");
                found.push((name.to_owned(), fs::read_to_string(&path).expect("text")));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no sources");
    found.sort();
    found
}

/// Applies a rule to each file; files of unit tests alone are left out where `tests` is false.
fn check(folder: &str, tests: bool, rule: fn(&str, &str) -> Vec<String>) {
    let files = sources(folder).into_iter();
    let files = files
        .filter(|(path, _)| tests || !(path.ends_with("/tests.rs") || path.contains("/tests/")));
    let faults: Vec<String> = files.flat_map(|(path, text)| rule(&path, &text)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn rooms_use_only_rooms_below_them() {
    check("src", false, rules::layers);
}

#[test]
fn crates_for_the_outside_stay_at_home() {
    check("src", false, rules::outside_crates);
}

#[test]
fn files_and_functions_are_short_finished_and_introduced() {
    check("src", true, rules::form);
    check("tests", true, rules::form);
}

#[test]
fn migrations_come_in_pairs() {
    let names = |database: &str| -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(database);
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    };
    let faults = rules::migrations(&names("sqlite"), &names("postgres"));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The rules on texts that break them.
mod each_rule_can_fail {
    use std::collections::BTreeSet;

    use super::rules::{form, layers, migrations, outside_crates};
    use super::source::{functions, names_crate, parts, rooms_used};

    #[test]
    fn layers_see_every_way_to_name_a_room() {
        let may_not = |room: &str, used: &str| {
            vec![format!("src/{room}/x.rs: `{room}` may not use `{used}`")]
        };
        let cases = [
            ("domain", "use crate::storage::Db;\n", "storage"),
            ("domain", "use crate::{clock::Span, settings::{Role, Settings}};\n", "settings"),
            ("domain", "use crate::{\n    clock::Span,\n    engine,\n};\n", "engine"),
            ("domain", "fn f() {\n    crate::http::problem();\n}\n", "http"),
            ("domain", "macro_rules! m { () => { $crate::jobs::x() } }\n", "jobs"),
            ("domain", "use crate::*;\n", "*"),
            ("storage", "use crate::engine::Command;\n", "engine"),
            ("suppliers", "use crate::storage::Db;\n", "storage"),
            ("engine", "use crate::settings::Settings;\n", "settings"),
            ("jobs", "use crate::http::api;\n", "http"),
            ("http", "use crate::jobs::run;\n", "jobs"),
            ("ids", "use crate::domain::sku;\n", "domain"),
        ];
        for (room, text, used) in cases {
            assert_eq!(layers(&format!("src/{room}/x.rs"), text), may_not(room, used), "{text}");
        }
        let unknown = layers("src/utils.rs", "");
        assert_eq!(unknown, ["src/utils.rs: `utils` has no row in the table of layers"]);
        let climbs = layers("src/domain/x.rs", "use super::super::storage;\n");
        assert_eq!(climbs, ["src/domain/x.rs: write `crate::…` instead of `super::super::…`"]);
    }

    #[test]
    fn layers_let_through_what_is_allowed_and_what_is_no_code() {
        let cases = [
            ("src/domain/x.rs", "use crate::{clock::Span, domain::money, ids::Ids};\n"),
            ("src/domain/x.rs", "//! See crate::storage.\n/* crate::http */\n"),
            ("src/domain/x.rs", "const S: &str = \"crate::storage\";\nconst C: char = '\"';\n"),
            ("src/domain/x.rs", "const S: &str = r#\"a \" crate::storage\"#;\n"),
            ("src/domain/x.rs", "fn f<'a>(x: &'a str) -> &'a str {\n    mycrate::storage(x)\n}\n"),
            (
                "src/domain/x.rs",
                "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::http;\n}\n",
            ),
            ("src/http/api/x.rs", "use crate::{alerts, domain, engine, storage, suppliers};\n"),
            ("src/app.rs", "use crate::{http, jobs, coordination};\n"),
        ];
        for (path, text) in cases {
            assert_eq!(layers(path, text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn crates_and_sql_are_found_away_from_home() {
        let faults = |path: &str, text: &str| outside_crates(path, text).len();
        let cases = [
            ("src/jobs/x.rs", "use sqlx::Row;\n", 1),
            ("src/jobs/x.rs", "fn f(p: &sqlx::SqlitePool) {}\n", 1),
            ("src/storage/x.rs", "use sqlx::Row;\nconst Q: &str = \"SELECT 1\";\n", 0),
            ("src/coordination/redis/link.rs", "use redis::Client;\n", 0),
            ("src/http/x.rs", "use redis::Client;\n", 1),
            ("src/storage.rs", "use sqlx::Row;\n", 0),
            ("src/storages/x.rs", "use sqlx::Row;\n", 1),
            ("src/jobs/x.rs", "const Q: &str = \"DELETE FROM holds\";\n", 1),
            ("src/jobs/x.rs", "// SELECT nothing\n", 0),
            ("src/http/x.rs", "use axum::Router;\nuse reqwest::Client;\n", 1),
            ("src/suppliers/simulator/x.rs", "use axum::Router;\n", 0),
            ("src/suppliers/alibaba1688/x.rs", "use axum::Router;\nuse reqwest::Client;\n", 1),
            ("src/engine/x.rs", "fn f() {\n    crate::sqlx::x();\n    notsqlx::x();\n}\n", 0),
            ("src/jobs/x.rs", "\n#[cfg(test)]\nmod tests {\n    use reqwest::Client;\n}\n", 0),
        ];
        for (path, text, count) in cases {
            assert_eq!(faults(path, text), count, "{path}: {text}");
        }
    }

    #[test]
    fn form_finds_long_unfinished_and_nameless_files() {
        let body = |lines: usize| "    x();\n".repeat(lines);
        let long = format!("//! A.\n{}", "\n".repeat(600));
        assert_eq!(form("a.rs", &long), ["a.rs: 601 lines; 600 is the most"]);
        assert_eq!(form("a.rs", "//! A.\n".repeat(600).as_str()), Vec::<String>::new());
        assert_eq!(form("a.rs", "fn f() {}\n").len(), 1);
        let of =
            |body: &str| format!("//! A.\npub(crate) async fn f(\n    a: u8,\n) {{\n{body}}}\n");
        assert_eq!(form("a.rs", &of(&body(66))), Vec::<String>::new());
        assert_eq!(form("a.rs", &of(&body(67))), ["a.rs:2: `f` has 71 lines; 70 is the most"]);
        let word = |word: &str| form("a.rs", &format!("//! A.\nfn f() {{\n    {word}\n}}\n"));
        for bad in [concat!("to", "do!()"), concat!("db", "g!(1)"), concat!("#[ig", "nore]")] {
            assert_eq!(word(bad).len(), 1, "{bad}");
        }
        assert_eq!(word("\"to-do\";"), Vec::<String>::new());
    }

    #[test]
    fn functions_end_where_they_end() {
        let text = "trait T {\n    fn declared(\n        &self,\n    ) -> u8;\n    fn short(&self) {}\n    \
                    const fn given(&self) -> u8 {\n        if x {\n            1\n        }\n    }\n}\n\
                    fn last<T>(t: T)\nwhere\n    T: Copy,\n{\n    let s = \"\n}\n\";\n}\n";
        let found = functions(&parts(text).code);
        let expected = [("declared", 2, 3), ("given", 6, 5), ("last", 12, 8)];
        let expected = expected.map(|(name, line, length)| (name.to_owned(), line, length));
        assert_eq!(found, expected);
    }

    #[test]
    fn paths_are_told_from_words_that_look_like_them() {
        assert!(names_crate("use axum;", "axum"));
        assert!(names_crate("x(axum::serve)", "axum"));
        assert!(!names_crate("utoipa_axum::router()", "axum"));
        assert!(!names_crate("crate::axum::x()", "axum"));
        let rooms: Vec<String> =
            rooms_used("use crate::{a, b::{c, d}, e as f};\ncrate::g::h();").into_iter().collect();
        assert_eq!(rooms, ["a", "b", "e", "g"]);
    }

    #[test]
    fn migrations_are_paired_and_numbered() {
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        let both = set(&["0001_first.sql", "0002_next_2.sql"]);
        assert_eq!(migrations(&both, &both), Vec::<String>::new());
        assert_eq!(
            migrations(&both, &set(&["0001_first.sql"])),
            ["migrations/postgres: 0002_next_2.sql is missing"]
        );
        for bad in ["0003_gap.sql", "0002_Next.sql", "2_next.sql", "0002_next.txt", "0002_.sql"] {
            let names = set(&["0001_first.sql", bad]);
            assert_eq!(migrations(&names, &names).len(), 1, "{bad}");
        }
    }
}
