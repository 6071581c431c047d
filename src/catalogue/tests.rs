//! The catalogue as shops write it: whole files in, rows or faults out.

use super::*;

const EXAMPLE: &str = "\
sku,title,class,low_watermark,warehouse,warehouse_quantity,supplier,offer_id,spec_id,supplier_cost,supplier_currency,min_quantity,pack_size
SHOE-42,Court sneaker white 42,hot,5,main,5,s1688,610947572360,b266e0726506185beaf205cbae88530d,128.00,CNY,1,1
SHOE-43,Court sneaker white 43,hot,5,,,s1688,610947572360,2ba3d63866a71fbae83909d9b4814f01,128.00,CNY,1,1
MUG-01,Enamel mug 350 ml,normal,10,main,120,,,,,,,
TAPE-10,Packing tape 10-pack,normal,,,,s1688,554456348334,,9.90,CNY,2,2
";

fn rows(text: &str) -> Vec<Row> {
    read(text.as_bytes(), &["s1688"]).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn faults_of(bytes: &[u8]) -> Vec<String> {
    match read(bytes, &["s1688"]) {
        Ok(rows) => panic!("accepted: {rows:?}"),
        Err(Refused(faults)) => faults.iter().map(Fault::to_string).collect(),
    }
}

fn faults(text: &str) -> Vec<String> {
    faults_of(text.as_bytes())
}

/// A file of the given lines under a short header.
fn short(lines: &[&str]) -> String {
    let mut text = "sku,warehouse_quantity\n".to_owned();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn example_offer(offer_id: &str, spec_id: Option<&str>, fen: i64, packs: i64) -> Option<Offer> {
    let currency = Currency::parse("CNY").expect("CNY");
    Some(Offer {
        supplier: "s1688".to_owned(),
        offer_id: offer_id.to_owned(),
        spec_id: spec_id.map(str::to_owned),
        cost: Some(Cost { amount: fen, currency }),
        min_quantity: packs,
        pack_size: packs,
    })
}

#[test]
fn the_example_is_read_whole() {
    let shelf = |quantity| Some(Shelf { warehouse: "main".to_owned(), quantity: Some(quantity) });
    let shoe = |spec| example_offer("610947572360", Some(spec), 12_800, 1);
    let row = |line, sku: &str, title: &str, class| Row {
        line,
        sku: sku.to_owned(),
        title: title.to_owned(),
        class,
        low_watermark: None,
        shelf: None,
        offer: None,
    };
    let expected = [
        Row {
            low_watermark: Some(5),
            shelf: shelf(5),
            offer: shoe("b266e0726506185beaf205cbae88530d"),
            ..row(2, "SHOE-42", "Court sneaker white 42", Class::Hot)
        },
        Row {
            low_watermark: Some(5),
            offer: shoe("2ba3d63866a71fbae83909d9b4814f01"),
            ..row(3, "SHOE-43", "Court sneaker white 43", Class::Hot)
        },
        Row {
            low_watermark: Some(10),
            shelf: shelf(120),
            ..row(4, "MUG-01", "Enamel mug 350 ml", Class::Normal)
        },
        Row {
            offer: example_offer("554456348334", None, 990, 2),
            ..row(5, "TAPE-10", "Packing tape 10-pack", Class::Normal)
        },
    ];
    assert_eq!(rows(EXAMPLE), expected);
}

#[test]
fn what_is_written_is_read_back() {
    let tricky = "sku,title,warehouse,supplier,offer_id,supplier_cost,supplier_currency\n\
                  \"A,\"\"1\"\"\",\"two\nlines\",north,,,,\n=1+1,,,s1688,9007199254740993,1.234,KWD\n";
    for text in [EXAMPLE, tricky] {
        let before = rows(text);
        let mut file = Vec::new();
        write_rows(&before, &mut file).expect("written");
        let mut after = read(&file, &["s1688"]).expect("read back");
        for (row, original) in after.iter_mut().zip(&before) {
            row.line = original.line;
        }
        assert_eq!(after, before);
    }
    let mut file = Vec::new();
    write_rows(&rows(EXAMPLE), &mut file).expect("written");
    let line = "MUG-01,Enamel mug 350 ml,normal,10,main,120,,,,,,,";
    assert!(String::from_utf8(file).expect("text").lines().any(|l| l == line));
}

#[test]
fn keys_stay_text() {
    // Case C085. `é` composed and decomposed, digits of full width, an emoji.
    let text = short(&[
        "01234,1",
        "1234,1",
        "AB-1,1",
        "ab-1,1",
        "1E5,1",
        "100000,1",
        "e\u{301},1",
        "１２,1",
        "👟,1",
    ]);
    let keys: Vec<String> = rows(&text).into_iter().map(|r| r.sku).collect();
    assert_eq!(keys, ["01234", "1234", "AB-1", "ab-1", "1E5", "100000", "\u{e9}", "１２", "👟"]);
    let twins = short(&["1234,1", "\"1234 \",1", "\u{e9},1", "e\u{301},1", "1234,2"]);
    assert_eq!(
        faults(&twins),
        [
            "line 3, sku: `1234` stands in line 2 already",
            "line 5, sku: `é` stands in line 4 already",
            "line 6, sku: `1234` stands in line 2 already",
        ]
    );
}

#[test]
fn a_byte_order_mark_changes_nothing() {
    // Case C086.
    let plain = rows(EXAMPLE);
    let quoted = EXAMPLE.replacen("sku,", "\"\u{feff}sku\",", 1);
    let wide = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("\u{feff}{EXAMPLE}").encode_utf16().flat_map(bytes).collect()
    };
    let files = [
        format!("\u{feff}{EXAMPLE}").into_bytes(),
        format!("\u{feff}{quoted}").into_bytes(),
        quoted.into_bytes(),
        wide(u16::to_le_bytes),
        wide(u16::to_be_bytes),
    ];
    for file in files {
        assert_eq!(read(&file, &["s1688"]), Ok(plain.clone()));
    }
}

#[test]
fn another_encoding_is_refused_whole() {
    // "sku,title" and GBK for 鞋子 (shoes), on line 2.
    let gbk = b"sku,title,warehouse\nA,\xd0\xac\xd7\xd3,main\n";
    let fault = "line 1: the file is not UTF-8 (first seen in line 2); save it as UTF-8";
    assert_eq!(faults_of(gbk), [fault]);
    let torn = [0xff, 0xfe, b's', 0, b'k'];
    assert_eq!(
        faults_of(&torn),
        ["line 1: the file begins as UTF-16 and is not; save it as UTF-8"]
    );
    assert_eq!(faults(""), ["line 1: the file is empty"]);
}

#[test]
fn a_wrong_separator_is_told_by_the_count_of_columns() {
    // Case C088.
    for separator in [";", "\t", "|"] {
        let told = faults(&EXAMPLE.replace(',', separator));
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("line 1: found 1 column, expected 13 (sku,title,"), "{told:?}");
    }
    let told = faults(&short(&["A,1", "B;1", "C,1,5", "D,2"]));
    assert_eq!(told, ["line 3: found 1 column, expected 2", "line 4: found 3 columns, expected 2"]);
}

#[test]
fn line_ends_quotes_and_blank_lines_do_not_matter() {
    let expected: Vec<String> = rows(EXAMPLE).into_iter().map(|r| r.sku).collect();
    let crlf = EXAMPLE.replace('\n', "\r\n");
    let no_end = EXAMPLE.trim_end().to_owned();
    let blank = EXAMPLE.replace("MUG-01", "\nMUG-01") + "\n,,,,,,,,,,,,\n";
    for text in [crlf, no_end, blank] {
        let keys: Vec<String> = rows(&text).into_iter().map(|r| r.sku).collect();
        assert_eq!(keys, expected);
    }
}

#[test]
fn faults_carry_the_line_on_which_the_row_begins() {
    let text = "sku,title,warehouse_quantity\nA,\"two\nlines\",1\n\n\r\nB,,x\r\nC,,-1\n";
    assert_eq!(
        faults(text),
        [
            "line 6, warehouse_quantity: `x` is not a whole number from 0 to 1000000000000",
            "line 7, warehouse_quantity: `-1` is not a whole number from 0 to 1000000000000",
        ]
    );
}

#[test]
fn columns_come_in_any_order_and_unknown_ones_are_named() {
    let text = "warehouse_quantity, sku ,class\n7,A,flash\n";
    let [row] = &rows(text)[..] else { panic!("one row") };
    assert_eq!((row.sku.as_str(), row.class), ("A", Class::Flash));
    assert_eq!(row.shelf, Some(Shelf { warehouse: "main".to_owned(), quantity: Some(7) }));
    assert_eq!(
        faults("name,colour,title,title\n"),
        [
            "line 1, name: is not a column of the catalogue",
            "line 1, colour: is not a column of the catalogue",
            "line 1, title: is a column twice",
            "line 1, sku: is required, and there is no such column",
        ]
    );
}

#[test]
fn all_faults_of_all_lines_are_told_at_once() {
    let header = EXAMPLE.lines().next().expect("a header");
    let lines = [
        ",no key,hot,5,main,5,,,,,,,",
        "A,no source,hot,5,,,,,,,,,",
        "B,,warm,five,North,1.0,,,,,,,",
        "C,,,,s1688,1e3,other,1,,,,,",
        "D,,,,,,s1688,,,1.2345,CNY,0,1",
        "E,,,,,,s1688,1,,5,,1,-1",
        "F,,,,,,s1688,1,,,CNY,,",
        "G,,,,,,s1688,1,,-5.00,CNY,,",
        "H,,,,,,s1688,1 2,,5.00,RMB,,",
        "I,,,,main,,,1,,,,,1",
        "J\u{7},,,,main,,,,,,,,",
    ];
    let long = format!("{},,,,main,,,,,,,,", "K".repeat(129));
    let text = format!("{header}\n{}\n{long}\n", lines.join("\n"));
    assert_eq!(
        faults(&text),
        [
            "line 2, sku: must not be empty",
            "line 3: has neither a warehouse nor a supplier",
            "line 4, class: `warm` is not one of: normal, hot, flash",
            "line 4, low_watermark: `five` is not a whole number from 0 to 1000000",
            "line 4, warehouse_quantity: `1.0` is not a whole number from 0 to 1000000000000",
            "line 4, warehouse: `North` must be 1 to 32 of a-z, 0-9, _ and -",
            "line 5, warehouse_quantity: `1e3` is not a whole number from 0 to 1000000000000",
            "line 5, warehouse: `s1688` is a supplier, not a warehouse",
            "line 5, supplier: `other` is not configured; these are: s1688",
            "line 6, offer_id: is required where there is a supplier",
            "line 6, supplier_cost: `1.2345`: CNY has 2 decimals at most",
            "line 6, min_quantity: `0` is not a whole number from 1 to 1000000",
            "line 7, supplier_currency: is required where there is a supplier_cost",
            "line 7, pack_size: `-1` is not a whole number from 1 to 1000000",
            "line 8, supplier_cost: is required where there is a supplier_currency",
            "line 9, supplier_cost: `-5.00`: must not be negative",
            "line 10, offer_id: must be at most 128 characters without blanks",
            "line 10, supplier_currency: `RMB` is not an ISO 4217 currency code such as USD",
            "line 11, offer_id: is given, and there is no supplier",
            "line 11, pack_size: is given, and there is no supplier",
            "line 12, sku: has a control character",
            "line 13, sku: has 129 characters; 128 is the most",
        ]
    );
}

#[test]
fn a_long_list_of_faults_is_cut_when_shown() {
    let lines: Vec<String> = (0..60).map(|i| format!("S{i},x")).collect();
    let text = short(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let refused = read(text.as_bytes(), &[]).expect_err("sixty faults");
    assert_eq!(refused.0.len(), 60);
    assert!(refused.to_string().ends_with("\n  and 10 more"), "{refused}");
}

#[test]
fn an_open_quote_does_not_swallow_lines_in_silence() {
    let told = faults("sku,title,warehouse\nA,\"open,main\nB,b,main\n");
    assert_eq!(told, ["line 2: found 2 columns, expected 3"]);
}
