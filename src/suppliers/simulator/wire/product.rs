//! `alibaba.fenxiao.productInfo.get`: an offer with its stock, as it was `lag` ago.
//!
//! The stock of a variant is `amountOnSale` of its SKU; the one of the sale information is that of
//! the whole offer (a Double), and the only one where an offer has no variants. Prices are Doubles
//! in yuan. No time of reading is stated, as on the platform.

use serde_json::{Value, json};

use super::{number, refusal, yuan};
use crate::clock::Timestamp;
use crate::suppliers::simulator::api::Api;
use crate::suppliers::simulator::offers::{Offer, Spec};
use crate::suppliers::simulator::settings::ProductShape;
use crate::suppliers::simulator::shop::Shop;
use crate::suppliers::simulator::transport::Call;

/// The answer, by the stock at `seen`.
pub fn get(shop: &Shop, shape: ProductShape, call: &Call, seen: Timestamp) -> Value {
    let id = call.param("offerId").or_else(|| call.param("openOfferId")).unwrap_or_default();
    // What the platform answers for an offer that never was is not known.
    let Some(offer) = shop.offer(id) else {
        return refusal(Api::Product, "404", "offer not found");
    };
    json!({ "success": true, "productInfo": info(shop, offer, shape, seen) })
}

fn info(shop: &Shop, offer: &Offer, shape: ProductShape, seen: Timestamp) -> Value {
    let stock: Vec<i64> = offer.items().iter().map(|item| shop.stock_at(item, seen)).collect();
    let skus: Vec<Value> =
        offer.specs.iter().zip(&stock).map(|(spec, stock)| sku(spec, *stock)).collect();
    let (skus_name, sale_name, image_name) = match shape {
        ProductShape::Fenxiao => ("productSkuInfos", "productSaleInfo", "productImage"),
        ProductShape::Classic => ("skuInfos", "saleInfo", "image"),
    };
    let mut info = json!({
        "productID": number(&offer.offer_id),
        "productType": "wholesale",
        "categoryID": 1_038_378,
        "subject": offer.title,
        "status": offer.status,
        "supplierLoginId": offer.seller,
        image_name: { "images": [format!("img/ibank/{}.jpg", offer.offer_id)] },
        sale_name: sale(offer, stock.iter().sum()),
    });
    if let Some(fields) = info.as_object_mut().filter(|_| !skus.is_empty()) {
        fields.insert(skus_name.to_owned(), skus.into());
    }
    info
}

fn sku(spec: &Spec, stock: i64) -> Value {
    json!({
        "skuId": spec.sku_id,
        "specId": spec.spec_id,
        "amountOnSale": stock,
        "price": yuan(spec.price_fen),
        "consignPrice": yuan(spec.price_fen),
        "attributes": [{
            "attributeID": 450,
            "attributeName": "尺码",
            "attributeDisplayName": "尺码",
            "attributeValue": spec.name,
        }],
    })
}

fn sale(offer: &Offer, stock: i64) -> Value {
    let least = offer.specs.iter().map(|spec| spec.price_fen).min().unwrap_or(offer.price_fen);
    json!({
        "supportOnlineTrade": true,
        "mixWholeSale": false,
        "priceRanges": [{ "startQuantity": offer.min_order_quantity, "price": yuan(least) }],
        "amountOnSale": yuan(stock.saturating_mul(100)),
        "minOrderQuantity": offer.min_order_quantity,
        "batchNumber": offer.batch_number,
        "unit": "件",
        "quoteType": i32::from(!offer.specs.is_empty()),
        "consignPrice": yuan(least),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::supply::Item;
    use crate::suppliers::simulator::settings::Settings;

    fn ask(offer_id: &str, shape: ProductShape, seen: i64) -> Value {
        let settings = Settings::quiet();
        let at = Timestamp::from_secs;
        let mut shop = Shop::new(settings.trade, &settings.offers, 1, at(0));
        let item = Item {
            offer_id: "610947572360".into(),
            spec_id: Some("b266e0726506185beaf205cbae88530d".into()),
        };
        shop.set_stock(&item, 7, at(100)).unwrap();
        let params = vec![("offerId".to_owned(), offer_id.to_owned())];
        get(&shop, shape, &Call { params, ..Call::default() }, at(seen))
    }

    #[test]
    fn variants_have_their_own_stock_and_the_offer_the_sum() {
        let late = ask("610947572360", ProductShape::Fenxiao, 99);
        assert_eq!(late["productInfo"]["productSkuInfos"][0]["amountOnSale"], 40);
        let answer = ask("610947572360", ProductShape::Fenxiao, 100);
        let info = &answer["productInfo"];
        assert_eq!(info["productID"], 610_947_572_360_u64);
        assert_eq!(info["productSkuInfos"][0]["amountOnSale"], 7);
        assert_eq!(info["productSkuInfos"][1]["amountOnSale"], 25);
        assert_eq!(info["productSkuInfos"][1]["specId"], "2ba3d63866a71fbae83909d9b4814f01");
        assert_eq!(info["productSkuInfos"][0]["price"].to_string(), "128.0");
        assert_eq!(info["productSaleInfo"]["amountOnSale"].to_string(), "32.0");
    }

    #[test]
    fn an_offer_without_variants_has_no_list_of_them() {
        let answer = ask("554456348334", ProductShape::Classic, 0);
        let info = &answer["productInfo"];
        assert!(info.get("skuInfos").is_none() && info.get("productSkuInfos").is_none());
        assert_eq!(info["saleInfo"]["amountOnSale"].to_string(), "500.0");
        assert_eq!(info["saleInfo"]["minOrderQuantity"], 2);
        assert_eq!(info["status"], "published");
    }

    #[test]
    fn an_unknown_offer_is_a_refusal() {
        let answer = ask("1", ProductShape::Fenxiao, 0);
        assert_eq!(answer["success"], false);
        assert!(answer.get("productInfo").is_none());
    }
}
