//! The schema is made once, checked at every start, and never used by a program that it does not
//! fit.

use std::collections::BTreeSet;

use stockhold::storage::Error;

use super::{TestDb, on_both};

on_both!(again_does_nothing, a_newer_schema_is_refused, an_older_one_is_told);

async fn again_does_nothing(test: TestDb) {
    test.db.migrate().await.unwrap();
    test.db.check_schema().await.unwrap();
    let applied = "SELECT version FROM _sqlx_migrations ORDER BY version";
    assert_eq!(test.numbers(applied, Vec::new()).await, vec![1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

async fn a_newer_schema_is_refused(test: TestDb) {
    test.run(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         SELECT 9999, 'of the future', success, checksum, 1 FROM _sqlx_migrations
         WHERE version = 1",
    )
    .await
    .unwrap();
    let newer = Error::Unavailable(
        "the database's schema is newer than this version of stockhold (it has migration 9999): run the newer version".into(),
    );
    assert_eq!(test.db.migrate().await, Err(newer.clone()));
    assert_eq!(test.db.check_schema().await, Err(newer));
    // The refusal keeps no lock: the next one is answered too.
    assert!(test.db.migrate().await.is_err());
}

async fn an_older_one_is_told(test: TestDb) {
    test.run("DELETE FROM _sqlx_migrations WHERE version = 3").await.unwrap();
    let told = test.db.check_schema().await;
    assert!(
        matches!(&told, Err(Error::Unavailable(why)) if why.contains("migration 3 is missing")),
        "{told:?}"
    );
}

async fn nothing_at_all_is_told(test: TestDb) {
    let told = test.db.check_schema().await;
    assert!(
        matches!(&told, Err(Error::Unavailable(why)) if why.contains("migration 1 is missing")),
        "{told:?}"
    );
    let write = test.run("INSERT INTO command_groups (id, at) VALUES ('g', 1)").await;
    assert!(
        matches!(&write, Err(Error::Unavailable(why)) if why.contains("schema does not fit")),
        "{write:?}"
    );
    // Two programs that start together.
    let (one, other) = tokio::join!(test.db.migrate(), async {
        if test.db.is_sqlite() {
            Ok(()) // a SQLite file has one writing process, see `claim_file`
        } else {
            test.db.migrate().await
        }
    });
    assert_eq!((one, other), (Ok(()), Ok(())));
    test.db.check_schema().await.unwrap();
}

#[tokio::test]
async fn nothing_at_all_is_told_on_sqlite() {
    nothing_at_all_is_told(TestDb::bare_sqlite()).await;
}

#[tokio::test]
async fn nothing_at_all_is_told_on_postgres() {
    nothing_at_all_is_told(TestDb::bare_postgres().await).await;
}

#[test]
fn both_databases_have_the_same_migrations() {
    let names = |database: &str| -> BTreeSet<String> {
        let folder = format!("{}/migrations/{database}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_dir(folder)
            .unwrap()
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    assert!(names("sqlite").len() >= 3);
    assert_eq!(names("sqlite"), names("postgres"));
}
