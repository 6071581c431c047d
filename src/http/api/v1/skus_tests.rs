//! SKUs read and refused.

use super::*;
use crate::domain::policy::Terms;
use serde_json::json;

fn policy() -> Policy {
    Policy { suppliers: [("s1688".into(), Terms::default())].into(), ..Policy::default() }
}

fn sku(text: &str) -> Result<Sku, Vec<String>> {
    read_sku(text, "SHOE-42".into(), &policy()).map_err(|problem| {
        let errors = problem.body()["errors"].clone();
        let fields = errors.as_array().expect("a list").iter();
        fields.map(|e| e["field"].as_str().unwrap_or_default().to_owned()).collect()
    })
}

fn with(source: serde_json::Value) -> Result<Sku, Vec<String>> {
    sku(&json!({"title": "T", "sources": [source]}).to_string())
}

#[test]
fn the_contract_s_example_is_read() {
    let text = r#"{"title":"Shoe","class":"hot","watermark":{"low":5,"recover":8},
     "sources":[{"source":"main","kind":"warehouse","buffer":0},
        {"source":"s1688","kind":"supplier","offer_id":"610947572360","spec_id":"b266","cost":"128.00",
         "currency":"CNY","min_quantity":2,"pack_size":3,"buffer":1}]}"#;
    let read = sku(text).expect("a SKU");
    assert_eq!((read.title.as_str(), read.class), ("Shoe", Class::Hot));
    assert_eq!(read.watermark, Watermark { low: Some(5), recover: Some(8) });
    let [own, other] = &read.sources[..] else { panic!("{read:?}") };
    assert_eq!((own.level.as_str(), own.buffer), ("main:SHOE-42", Some(0)));
    assert_eq!(other.level.as_str(), "s1688:610947572360:b266");
    assert_eq!((other.cost, other.currency.as_deref()), (Some(12800), Some("CNY")));
    assert_eq!((other.min_quantity, other.pack_size, other.buffer), (2, 3, Some(1)));
}

#[test]
fn what_is_absent_is_the_default() {
    let read =
        with(json!({"source": "s1688", "kind": "supplier", "offer_id": "1", "cost": "1.50"}));
    let read = read.expect("a SKU");
    assert_eq!((read.class, read.watermark), (Class::Normal, Watermark::default()));
    let source = &read.sources[0];
    assert_eq!(source.level.as_str(), "s1688:1:");
    assert_eq!((source.min_quantity, source.pack_size, source.buffer), (1, 1, None));
    // The supplier's currency.
    assert_eq!((source.cost, source.currency.as_deref()), (Some(150), Some("CNY")));
}

#[test]
fn a_source_is_a_warehouse_or_a_configured_supplier_and_says_what_belongs_to_it() {
    for (source, field) in [
        (json!({"source": "s2", "kind": "supplier", "offer_id": "1"}), "sources[0].source"),
        (json!({"source": "s1688", "kind": "warehouse"}), "sources[0].source"),
        (json!({"source": "My House", "kind": "warehouse"}), "sources[0].source"),
        (json!({"source": "main", "kind": "shop"}), "sources[0].kind"),
        (json!({"source": "main", "kind": "warehouse", "offer_id": "1"}), "sources[0].offer_id"),
        (json!({"source": "main", "kind": "warehouse", "pack_size": 1}), "sources[0].pack_size"),
        (json!({"source": "s1688", "kind": "supplier"}), "sources[0].offer_id"),
        (json!({"source": "s1688", "kind": "supplier", "offer_id": "1:2"}), "sources[0].offer_id"),
        (json!({"source": "s1688", "kind": "supplier", "offer_id": 1}), "sources[0].offer_id"),
        (json!({"source": "main", "kind": "warehouse", "buffer": -1}), "sources[0].buffer"),
        (json!({"source": "main", "kind": "warehouse", "buffer": null}), "sources[0].buffer"),
    ] {
        assert_eq!(with(source.clone()), Err(vec![field.to_owned()]), "{source}");
    }
    for (name, value) in
        [("cost", json!("1.005")), ("min_quantity", json!(0)), ("pack_size", json!(1.0))]
    {
        let mut source = json!({"source": "s1688", "kind": "supplier", "offer_id": "1"});
        source[name] = value;
        assert_eq!(with(source), Err(vec![format!("sources[0].{name}")]));
    }
}

#[test]
fn there_are_one_to_five_sources_each_once() {
    let own = json!({"source": "main", "kind": "warehouse"});
    let many = |sources: Vec<serde_json::Value>| {
        sku(&json!({"title": "T", "sources": sources}).to_string())
    };
    assert_eq!(many(vec![own.clone(), own]), Err(vec!["sources[1].source".to_owned()]));
    assert_eq!(many(vec![]), Err(vec!["sources".to_owned()]));
    let six = (0..6).map(|i| json!({"source": format!("w{i}"), "kind": "warehouse"})).collect();
    assert_eq!(many(six), Err(vec!["sources".to_owned()]));
}

#[test]
fn a_watermark_recovers_above_where_it_is_low() {
    let mark = |low: i64, recover: i64| {
        sku(&json!({"title": "T", "watermark": {"low": low, "recover": recover},
            "sources": [{"source": "main", "kind": "warehouse"}]})
        .to_string())
    };
    assert!(mark(5, 6).is_ok());
    assert_eq!(mark(5, 5), Err(vec!["watermark.recover".to_owned()]));
    assert_eq!(mark(-1, 5), Err(vec!["watermark.low".to_owned()]));
}

#[test]
fn an_alias_is_a_sku_key() {
    assert_eq!(read_alias(r#"{"alias":" S1-NEW "}"#), Ok("S1-NEW".into()));
    assert!(read_alias(r#"{"alias":""}"#).is_err());
    assert!(read_alias("{}").is_err());
}
