//! What jobs walk through, page by page.

use stockhold::clock::Timestamp;
use stockhold::domain::names::{LevelId, OrderId};
use stockhold::storage::pages;

use super::fixture::{full, sku, unpaid, upstream, warehouse};
use super::{TestDb, at, on_both};

on_both!(overdue_orders_come_by_deadline_and_id, a_sources_levels_come_by_id,);

async fn all_overdue(test: &TestDb, until: Timestamp, limit: i64) -> Vec<(Timestamp, OrderId)> {
    let mut all: Vec<(Timestamp, OrderId)> = Vec::new();
    loop {
        let after = all.last().cloned();
        let page = test.transact(move |tx| {
            Box::pin(async move { pages::overdue_orders(tx, until, after, limit).await })
        });
        let page = page.await.unwrap();
        if page.is_empty() {
            return all;
        }
        assert!(page.len() <= usize::try_from(limit).unwrap());
        all.extend(page);
    }
}

async fn overdue_orders_come_by_deadline_and_id(test: TestDb) {
    // `full` is due itself at 1900, its purchase at 9000, its refund at 86,700.
    test.change(&Default::default(), at(100), |world| {
        world.put_sku(sku());
        world.create_level(warehouse());
        world.create_level(upstream());
        world.create_order(full("o4"));
        for id in ["o5", "o1", "o3", "o2"] {
            world.create_order(unpaid(id, 1, at(1900)));
        }
        world.create_order(unpaid("o0", 1, at(1901)));
        world.create_order(unpaid("o9", 1, at(500)));
    })
    .await
    .unwrap();
    let due = |list: &[(i64, &str)]| -> Vec<(Timestamp, OrderId)> {
        list.iter().map(|(secs, id)| (at(*secs), OrderId::from(*id))).collect()
    };
    let until_1900 =
        due(&[(500, "o9"), (1900, "o1"), (1900, "o2"), (1900, "o3"), (1900, "o4"), (1900, "o5")]);
    for limit in [1, 2, 3, 100] {
        assert_eq!(all_overdue(&test, at(1900), limit).await, until_1900, "pages of {limit}");
    }
    let mut everything = until_1900;
    everything.extend(due(&[(1901, "o0"), (9000, "o4"), (86_700, "o4")]));
    assert_eq!(all_overdue(&test, at(100_000), 2).await, everything);
    assert_eq!(all_overdue(&test, at(499), 2).await, []);
}

async fn a_sources_levels_come_by_id(test: TestDb) {
    test.change(&Default::default(), at(100), |world| {
        world.create_level(warehouse());
        world.create_level(upstream());
    })
    .await
    .unwrap();
    let of = async |after: Option<&str>, limit| -> Vec<LevelId> {
        let after = after.map(LevelId::from);
        let page = test.transact(move |tx| {
            Box::pin(
                async move { pages::levels_of(tx, &"s1688".into(), after.as_ref(), limit).await },
            )
        });
        page.await.unwrap().into_iter().map(|level| level.id).collect()
    };
    assert_eq!(of(None, 10).await, [upstream().id]);
    assert_eq!(of(Some(upstream().id.as_str()), 10).await, []);
    assert_eq!(of(None, 0).await, []);

    // Its figure is as of second 90.
    let aged = async |before: i64| -> (Vec<LevelId>, [u64; 2]) {
        let page = test.transact(move |tx| {
            Box::pin(async move {
                let s1688 = "s1688".into();
                let aged = pages::aged_levels(tx, &s1688, at(before), None, 10).await?;
                let counts = [
                    pages::count_levels(tx, &s1688).await?,
                    pages::count_levels(tx, &"nobody".into()).await?,
                ];
                Ok((aged, counts))
            })
        });
        let (aged, counts) = page.await.unwrap();
        (aged.into_iter().map(|level| level.id).collect(), counts)
    };
    assert_eq!(aged(91).await, (vec![upstream().id], [1, 0]));
    assert_eq!(aged(90).await, (vec![], [1, 0]));
}
