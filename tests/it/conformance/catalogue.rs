//! The version of the catalogue: whoever changes what is sold, from where, or a stop switch, counts.

use super::{TestDb, on_both};

on_both!(every_change_of_the_catalogue_counts, what_is_no_change_of_the_catalogue_does_not);

async fn version(test: &TestDb) -> i64 {
    test.numbers("SELECT version FROM catalogue", Vec::new()).await[0]
}

async fn every_change_of_the_catalogue_counts(test: TestDb) {
    let mut last = version(&test).await;
    assert_eq!(last, 1);
    for change in [
        "INSERT INTO skus (key, title, class) VALUES ('A', '', 'normal')",
        "UPDATE skus SET title = 'a'",
        "INSERT INTO sku_sources (sku, position, source, kind, level_id, min_quantity, pack_size)
            VALUES ('A', 1, 'main', 'warehouse', 'main:A', 1, 1)",
        "UPDATE sku_sources SET pack_size = 2",
        "DELETE FROM sku_sources",
        "INSERT INTO sku_aliases (alias, sku) VALUES ('OLD', 'A')",
        "UPDATE sku_aliases SET sku = 'B'",
        "DELETE FROM sku_aliases",
        "DELETE FROM skus",
        "INSERT INTO suppliers (id, selling_paused_at, selling_paused_reason) VALUES ('s1', 1, 'x')",
        "UPDATE suppliers SET selling_paused_reason = 'y'",
        "UPDATE suppliers SET selling_paused_at = NULL, selling_paused_reason = NULL",
        "UPDATE suppliers SET buying_paused_at = 1, buying_paused_reason = 'x'",
        "DELETE FROM suppliers",
    ] {
        test.run(change).await.unwrap();
        let now = version(&test).await;
        assert!(now > last, "{change}");
        last = now;
    }
}

async fn what_is_no_change_of_the_catalogue_does_not(test: TestDb) {
    for change in [
        "INSERT INTO suppliers (id, last_sync_at) VALUES ('s1', 1)",
        "UPDATE suppliers SET last_sync_at = 2, tokens = '{}'",
        "INSERT INTO levels (id, source, kind, quantity, held, committed, version, listing,
            lag_samples, lock_token) VALUES ('main:A', 'main', 'warehouse', 1, 0, 0, 1, 'listed', '[]', 0)",
        "UPDATE levels SET quantity = 2",
    ] {
        test.run(change).await.unwrap();
        assert_eq!(version(&test).await, 1, "{change}");
    }
}
