//! The command line: catalogues in and out, configuration checks, what starts without any.

use serde_json::json;

use super::api::order;
use super::daemon::{BINARY, Home, finish};

const HEAD: &str = "sku,title,class,low_watermark,warehouse,warehouse_quantity,supplier,offer_id,\
                    spec_id,supplier_cost,supplier_currency,min_quantity,pack_size\n";

/// A configuration with a supplier that nothing answers for.
const SUPPLIER: &str = "[[suppliers]]\nid = \"s1688\"\nprotocol = \"1688\"\n\
    gateway = \"http://127.0.0.1:9/openapi\"\napp_key = \"1000000\"\n\
    app_secret = \"secret-of-the-app\"\naccess_token = \"secret-token-1\"\n";

async fn import(home: &Home, text: &str, more: &[&str]) -> super::daemon::Ran {
    std::fs::write(home.path("in.csv"), text).expect("written");
    home.run(&[&["stock", "import", "in.csv"], more].concat()).await
}

#[tokio::test]
async fn every_bad_line_is_told_and_nothing_is_applied() {
    let home = Home::new("");
    let rows = "A,Good,normal,,main,5,,,,,,,\n\
                ,No key,normal,,main,5,,,,,,,\n\
                B,Bad class,cold,,main,5,,,,,,,\n\
                C,Bad number,normal,,main,5.0,,,,,,,\n\
                A,Twice,normal,,main,5,,,,,,,\n\
                D,No supplier,normal,,,,s9,1,,,,,\n\
                E,Short row,normal\n\
                F,Nowhere,normal,,,,,,,,,,\n\
                G,Negative,normal,,main,-1,,,,,,,\n";
    let said = import(&home, &format!("{HEAD}{rows}"), &[]).await.refused();
    for fault in [
        "line 3, sku",
        "line 4, class",
        "line 5, warehouse_quantity",
        "line 6, sku",
        "line 7, supplier",
        "line 8: found 3 columns, expected 13",
        "line 9",
        "line 10, warehouse_quantity",
        "nothing was applied",
    ] {
        assert!(said.contains(fault), "{fault} is not told:\n{said}");
    }
    let daemon = home.serve().await;
    assert_eq!(daemon.list("/v1/skus", 50).await.len(), 0);
}

#[tokio::test]
async fn an_import_again_changes_nothing_and_differences_are_told() {
    let home = Home::new("");
    let rows = format!("{HEAD}A,Mug,normal,10,main,120,,,,,,,\nB,Cup,hot,,,7,,,,,,,\n");
    assert_eq!(import(&home, &rows, &[]).await.ok(), "2 new, 0 changed, 0 unchanged\n");
    assert_eq!(import(&home, &rows, &[]).await.ok(), "0 new, 0 changed, 2 unchanged\n");
    let daemon = home.serve().await;
    daemon.placed("o1", "A", 20).await;
    daemon.placed("o2", "B", 5).await;
    daemon.stop().await;
    let counted = format!("{HEAD}A,Mug,normal,10,main,100,,,,,,,\nB,Cup,hot,,,4,,,,,,,\n");
    let told = import(&home, &counted, &[]).await.ok();
    assert_eq!(
        told,
        "0 new, 0 changed, 2 unchanged\n\
         line 2: main:A has 120, the file says 100: left alone (--set-quantities)\n\
         line 3: main:B has 7, the file says 4: left alone (--set-quantities)\n"
    );
    let told = import(&home, &counted, &["--set-quantities"]).await.ok();
    assert_eq!(
        told,
        "0 new, 0 changed, 2 unchanged\n\
         line 2: main:A has 120, the file says 100: corrected\n\
         line 3: main:B cannot be set to 4: 5 are held or sold\n"
    );
    let daemon = home.serve().await;
    assert_eq!(daemon.figures("A").await, (100, 20, 0, 80));
    assert_eq!(daemon.figures("B").await, (7, 5, 0, 2));
    home.settled().await;
    let entries = daemon.list("/v1/ledger?sku=A", 50).await;
    let last = entries.last().expect("an entry");
    assert_eq!((&last["event"], &last["quantity"]), (&json!("correction"), &json!(-20)));
    home.check_books().await;
}

/// C086, C088: byte-order marks, separators, line ends.
#[tokio::test]
async fn c086_files_as_spreadsheets_save_them() {
    let home = Home::new("");
    let rows = format!("{HEAD}Ä-1,\"Mug, \"\"big\"\"\nblue\",normal,,main,3,,,,,,,");
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(rows.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let mark = [b"\xef\xbb\xbf", rows.as_bytes()].concat();
    let crlf = rows.replace('\n', "\r\n").into_bytes();
    for (n, bytes) in [rows.into_bytes(), mark, wide].into_iter().enumerate() {
        std::fs::write(home.path("in.csv"), bytes).expect("written");
        let said = home.run(&["stock", "import", "in.csv"]).await.ok();
        let expected = if n == 0 {
            "1 new, 0 changed, 0 unchanged\n"
        } else {
            "0 new, 0 changed, 1 unchanged\n"
        };
        assert_eq!(said, expected, "form {n}");
    }
    std::fs::write(home.path("in.csv"), crlf).expect("written");
    home.run(&["stock", "import", "in.csv"]).await.ok();
    for (text, fault) in [
        (HEAD.replace(',', ";") + "A;B;normal\n", "found 1 column, expected 13"),
        (HEAD.replace(',', "\t"), "found 1 column"),
        (String::new(), "empty"),
        ("sku,colour\nA,red\n".to_owned(), "colour"),
        ("title,warehouse_quantity\nA,1\n".to_owned(), "sku"),
    ] {
        let said = import(&home, &text, &[]).await.refused();
        assert!(said.contains(fault), "{fault}: {said}");
    }
    std::fs::write(home.path("in.csv"), b"sku,title\nA,\xb9\xfd\n").expect("written");
    let said = home.run(&["stock", "import", "in.csv"]).await.refused();
    assert!(said.contains("not UTF-8") && said.contains("line 2"), "{said}");
    let said = home.run(&["stock", "import", "missing.csv"]).await.refused();
    assert!(said.contains("missing.csv"), "{said}");
}

/// 1,200 rows are three batches; what comes out goes in again as it is.
#[tokio::test]
async fn what_is_exported_is_imported_unchanged() {
    let home = Home::new(SUPPLIER);
    let mut rows = String::from(HEAD);
    for n in 0..1_200 {
        rows += &match n % 4 {
            0 => format!("K{n},\"Item, {n}\",normal,,main,{n},,,,,,,\n"),
            1 => format!("K{n},,hot,7,,,s1688,{n}00,spec{n},128.00,CNY,2,2\n"),
            2 => format!("0{n},Both,flash,0,north,{n},s1688,{n}00,,9.9,CNY,1,1\n"),
            _ => format!("É{n},\"a\"\"b\",normal,,main,0,s1688,{n},x,,,,\n"),
        };
    }
    let said = import(&home, &rows, &[]).await.ok();
    assert_eq!(said, "1200 new, 0 changed, 0 unchanged\n");
    let printed = home.run(&["stock", "export"]).await.ok();
    home.run(&["stock", "export", "out.csv"]).await.ok();
    assert_eq!(std::fs::read_to_string(home.path("out.csv")).expect("a file"), printed);
    assert_eq!(printed.lines().count(), 1_201);
    let said = home.run(&["stock", "import", "out.csv", "--set-quantities"]).await.ok();
    assert_eq!(said, "0 new, 0 changed, 1200 unchanged\n");
    // Into an empty store the same catalogue comes out.
    let other = Home::new(SUPPLIER);
    std::fs::write(other.path("in.csv"), &printed).expect("written");
    other.run(&["stock", "import", "in.csv"]).await.ok();
    assert_eq!(other.run(&["stock", "export"]).await.ok(), printed);
    let unknown = Home::new("");
    std::fs::write(unknown.path("in.csv"), &printed).expect("written");
    let said = unknown.run(&["stock", "import", "in.csv"]).await.refused();
    assert!(said.contains("s1688"), "the supplier is not configured there: {said}");
    let said = home.run(&["stock", "export", "no/such/folder/out.csv"]).await.refused();
    assert!(said.contains("no/such/folder"), "{said}");
}

#[tokio::test]
async fn a_configuration_is_checked_whole_and_shown_without_secrets() {
    let home = Home::new(&format!("{SUPPLIER}refresh_token = \"secret-refresh-1\"\n")).with_keys();
    let ran = home.run(&["check-config"]).await;
    assert!(!ran.stderr.contains("secret-"), "{}", ran.stderr);
    let shown = ran.ok();
    assert!(shown.contains("holds.ttl_normal") && shown.contains("s1688"), "{shown}");
    for secret in ["secret-of-the-app", "secret-token-1", "secret-refresh-1", "-key-0123456789"] {
        assert!(!shown.contains(secret), "{secret} is shown");
    }
    let cases = [
        ("[holds]\nttl_nromal = \"5m\"", "holds.ttl_nromal"),
        ("colour = 1", "colour"),
        ("[holds]\nttl_normal = \"\"", "holds.ttl_normal"),
        ("[holds]\nttl_normal = \"0s\"", "holds.ttl_normal"),
        ("[holds]\nttl_normal = \"-5m\"", "holds.ttl_normal"),
        ("[holds]\nttl_normal = 5", "holds.ttl_normal"),
        ("[limits]\nmax_queued_commands = 0", "limits.max_queued_commands"),
        ("[limits]\nrequests_per_second = -5", "limits.requests_per_second"),
        ("[coordination]\nurl = \"redis://h:1/x\"", "coordination.url"),
        ("[watermark]\nlow = 5\nrecover = 5", "watermark.recover"),
        ("[[alerts.channels]]\ntype = \"pigeon\"", "alerts.channels.0.type"),
        ("[[alerts.channels]]\ntype = \"email\"", "not built yet"),
        ("[[suppliers]]\nid = \"main\"", "suppliers.0"),
    ];
    for (settings, named) in cases {
        let home = Home::new(settings);
        for command in ["check-config", "serve", "migrate"] {
            let said = home.run(&[command]).await.refused();
            assert!(said.contains(named), "{command}, {settings}: {said}");
        }
        assert!(!home.path("store.db").exists(), "nothing is made before the settings are right");
    }
    // All faults at once.
    let both = Home::new("colour = 1\n[holds]\nttl_hot = \"x\"\nttl_flash = \"y\"");
    let said = both.run(&["check-config"]).await.refused();
    for named in ["ttl_hot", "ttl_flash"] {
        assert!(said.contains(named), "{said}");
    }
    let broken = Home::new("[holds\n").run(&["check-config"]).await.refused();
    assert!(broken.contains("stockhold.toml"), "{broken}");
}

#[tokio::test]
async fn only_loopback_is_served_without_keys() {
    let home = Home::new("");
    let mut command = home.command(&["serve", "--listen", "0.0.0.0:0"]);
    let said = finish(command).await.refused();
    assert!(said.contains("loopback"), "{said}");
    let with_keys = Home::new("").with_keys();
    let daemon = with_keys.start(with_keys.command(&["serve", "--listen", "0.0.0.0:0"])).await;
    assert!(daemon.address().starts_with("0.0.0.0:"), "{}", daemon.address());
    drop(daemon);
    command = home.command(&["serve", "--listen", "nonsense"]);
    let said = finish(command).await.refused();
    assert!(said.contains("nonsense"), "{said}");
    let missing = tokio::process::Command::new(BINARY)
        .args(["--config", "/no/such/file.toml", "serve"])
        .output()
        .await
        .expect("it runs");
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/file.toml"));
}

/// Without a configuration a daemon serves and keeps its data in `./data`.
#[tokio::test]
async fn it_serves_without_any_configuration() {
    let home = Home::new("");
    let folder = home.path("empty");
    std::fs::create_dir(&folder).expect("made");
    let serve = || {
        let mut command = tokio::process::Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(&folder);
        command.env_remove("STOCKHOLD_CONFIG").kill_on_drop(true);
        command
    };
    let daemon = home.start(serve()).await;
    daemon.stocked("W1", 3).await;
    daemon.placed("o1", "W1", 1).await;
    assert!(folder.join("data/stockhold.db").exists());
    daemon.stop().await;
    let daemon = home.start(serve()).await;
    assert_eq!(daemon.figures("W1").await, (3, 1, 0, 2));
    let placed = daemon.place(&order("o2", &[("W1", 9)])).await;
    placed.refused(409, "insufficient_stock");
}

#[tokio::test]
async fn migrate_makes_the_schema_and_does_so_again() {
    let home = Home::new("");
    for _ in 0..2 {
        assert_eq!(home.run(&["migrate"]).await.ok(), "the schema is up to date\n");
    }
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 0);
    assert_eq!(home.run(&["stock", "export"]).await.ok().lines().count(), 1);
    for arguments in [&["--help"][..], &["--version"], &["serve", "--help"]] {
        let ran = home.run(arguments).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_eq!(home.run(&["sell"]).await.code, Some(2));
}
