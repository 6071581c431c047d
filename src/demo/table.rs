//! The end of the night on paper: figures, goods, troubles, promises.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::books::Books;
use super::promises::{oversold, taken};
use super::shop::{cents, money};
use super::verdict::{Check, Verdict};

/// Faults of one check that are printed.
const MOST: usize = 10;

/// All of it.
pub fn text(books: &Books, verdict: &Verdict) -> String {
    let mut text = String::new();
    section(&mut text, "THE NIGHT IN FIGURES", &figures(books));
    section(&mut text, "UNITS", &units(books));
    section(&mut text, "TROUBLES", &troubles(&verdict.troubles));
    section(&mut text, "PROMISES", &promises(&verdict.promises));
    for check in verdict.promises.iter().chain(&verdict.troubles) {
        for fault in check.faults.iter().take(MOST) {
            let _ = writeln!(text, "  ! {}: {fault}", check.about);
        }
        if let Some(more) = check.faults.len().checked_sub(MOST).filter(|n| *n > 0) {
            let _ = writeln!(text, "  ! {}: and {more} more", check.about);
        }
    }
    let end = if verdict.kept() { "every promise held" } else { "NOT every promise held" };
    let _ = writeln!(text, "\n{end}");
    text
}

fn section(text: &mut String, title: &str, rows: &[Vec<String>]) {
    let _ = writeln!(text, "\n{title}");
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(ToOwned::to_owned).to_vec()
}

fn figures(books: &Books) -> Vec<Vec<String>> {
    let in_state = |which: &dyn Fn(&super::shop::OrderView) -> bool| {
        books.orders.iter().filter(|o| which(o)).count().to_string()
    };
    let placed = books.visits.iter().filter(|v| v.order.is_some()).count();
    let refused = books.visits.iter().filter(|v| v.order.is_none()).count();
    let repeated: u32 = books.visits.iter().map(|v| v.repeated).sum();
    let owed: i64 = books.refunds.iter().filter_map(|r| cents(&r.amount).ok()).sum();
    let made = books.refunds.iter().filter(|r| r.state == "succeeded");
    let (made, sum) =
        made.fold((0, 0), |(n, sum), refund| (n + 1, sum + cents(&refund.amount).unwrap_or(0)));
    let wrong = books.levels.iter().filter(|l| l.shown != l.counted).count();
    let levels = books.levels.len();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in books.orders.iter().filter_map(|o| o.cancel_reason.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let reasons: Vec<String> = reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    let line = |name: &str, value: String, note: String| vec![name.to_owned(), value, note];
    let none = String::new;
    vec![
        line("orders placed", placed.to_string(), format!("{repeated} submissions repeated")),
        line("orders refused", refused.to_string(), none()),
        line("orders confirmed", in_state(&|o| o.stands()), none()),
        line("orders cancelled", in_state(&|o| o.state == "cancelled"), reasons.join(", ")),
        line("orders expired", in_state(&|o| o.state == "expired"), none()),
        line("orders still open", in_state(&|o| !o.at_rest()), none()),
        line("refunds owed", books.refunds.len().to_string(), money(owed)),
        line("refunds made", made.to_string(), money(sum)),
        line("active holds left", books.active_holds.len().to_string(), none()),
        line("units oversold", oversold(books).to_string(), none()),
        line(
            "balances unlike their ledger",
            wrong.to_string(),
            format!("{levels} balances, {} entries", books.ledger_entries),
        ),
    ]
}

fn units(books: &Books) -> Vec<Vec<String>> {
    let mut rows = vec![row(["goods", "from", "had", "sold", "to others"])];
    for level in &books.levels {
        if let Some(shelf) = level.shelf {
            let sold = taken(books, level).to_string();
            rows.push(row([&level.name, "our shelf", &shelf.to_string(), &sold, "-"]));
        }
    }
    for goods in &books.goods {
        let (had, bought) = (goods.had.to_string(), goods.bought.to_string());
        rows.push(row([&goods.name, "the supplier", &had, &bought, &goods.others.to_string()]));
    }
    rows
}

fn troubles(checks: &[Check]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for check in checks {
        let word = if check.kept() { "" } else { check.word() };
        rows.push(row([check.about, &check.looked_at.to_string(), word]));
    }
    rows
}

fn promises(checks: &[Check]) -> Vec<Vec<String>> {
    let looked = |n: usize| format!("{n} looked at");
    checks.iter().map(|c| row([c.word(), c.about, &looked(c.looked_at)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_faults_follow() {
        let mut text = String::new();
        section(&mut text, "T", &[row(["a", "1"]), row(["long", "22"])]);
        assert_eq!(text, "\nT\n  a     1\n  long  22\n");
        let check = |faults: usize| Check {
            about: "x",
            looked_at: 1,
            faults: (0..faults).map(|n| format!("f{n}")).collect(),
        };
        let verdict = |faults| Verdict { promises: vec![check(faults)], troubles: vec![] };
        let good = super::text(&Books::default(), &verdict(0));
        assert!(good.contains("  kept  x  1 looked at\n"), "{good}");
        assert!(good.ends_with("\nevery promise held\n"), "{good}");
        let bad = super::text(&Books::default(), &verdict(12));
        assert!(bad.contains("  BROKEN  x  1 looked at\n  ! x: f0\n"), "{bad}");
        assert!(bad.contains("  ! x: and 2 more\n\nNOT every promise held\n"), "{bad}");
    }
}
