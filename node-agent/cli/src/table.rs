use serde::Serialize;

/// A row that can be shown as columns or as JSON.
pub(crate) trait Row: Serialize {
    /// Heads of the columns.
    const HEADER: &'static [&'static str];

    /// Texts under the heads, as many.
    fn cells(&self) -> Vec<String>;
}

/// Rows as aligned columns, the last one ragged. An empty cell shows as `-`.
pub(crate) fn columns<R: Row>(rows: &[R]) -> String {
    let header = R::HEADER.iter().map(|head| (*head).to_owned()).collect();
    let mut lines: Vec<Vec<String>> = vec![header];
    lines.extend(rows.iter().map(R::cells));
    let mut widths = vec![0; R::HEADER.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let mut shown = String::new();
        for (cell, &width) in line.iter().zip(&widths) {
            let cell = if cell.is_empty() { "-" } else { cell };
            shown.push_str(&format!("{cell:width$}   "));
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

/// Anything as indented JSON with a line end.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Pair(&'static str, &'static str);

    impl Row for Pair {
        const HEADER: &'static [&'static str] = &["NAME", "VALUE"];

        fn cells(&self) -> Vec<String> {
            vec![self.0.to_owned(), self.1.to_owned()]
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        assert_eq!(
            columns(&[Pair("a", "x"), Pair("länger", ""), Pair("", "yy")]),
            "NAME     VALUE\na        x\nlänger   -\n-        yy\n"
        );
        assert_eq!(columns::<Pair>(&[]), "NAME   VALUE\n");
    }
}
