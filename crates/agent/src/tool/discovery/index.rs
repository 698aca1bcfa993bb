//! The ranking of tools for a query.
//!
//! It is BM25 with the δ of BM25+, over one weighted term frequency. It is pure, and deterministic
//! to the bit.

use std::collections::HashMap;

use super::tokens;

const K1: f64 = 1.2;
const B: f64 = 0.75;
const DELTA: f64 = 1.0;

/// The indexed text of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolDocument {
    /// The tool's name; weight 6.
    pub name: String,
    /// The display name; weight 4.
    pub label: String,
    /// The first [`SUMMARY`] characters of the description; weight 2.
    pub summary: String,
    /// The tool's source, which is not searched.
    pub source: ToolSource,
    /// The MCP server's name; weight 2.
    pub server_name: Option<String>,
    /// The name on that server; weight 4.
    pub mcp_tool_name: Option<String>,
    /// Parameter names; weight 1.
    pub schema_keys: Vec<String>,
}

/// Candidates held in addition to twice the limit.
const ROOM: usize = 64;

/// Indexed characters of a description.
pub(crate) const SUMMARY: usize = 200;

/// The origin of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolSource {
    #[default]
    Builtin,
    /// A configured MCP server.
    Mcp,
    Extension,
    Custom,
}

/// A matching tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// Index of its document.
    pub document: usize,
    /// Quality of the match, above 0; comparable within one answer only.
    pub score: f64,
}

/// An inverted index of the documents.
#[derive(Debug, Default)]
pub struct ToolIndex {
    names: Vec<String>,
    /// Factor of each document: k1 × (1 − b + b × length / mean length).
    norms: Vec<f64>,
    postings: HashMap<String, Vec<Posting>>,
}

#[derive(Debug)]
struct Posting {
    document: u32,
    frequency: f64,
}

impl ToolIndex {
    /// Builds the index in time linear in the text.
    pub fn new<'a>(documents: impl IntoIterator<Item = &'a ToolDocument>) -> Self {
        let mut index = ToolIndex::default();
        let mut lengths: Vec<f64> = Vec::new();
        for (at, document) in documents.into_iter().enumerate() {
            let mut length = 0.0;
            document.each_field(|text, weight| {
                tokens::each_word(text, |token| {
                    length += weight;
                    index.add(token, at, weight);
                });
            });
            lengths.push(length);
            index.names.push(document.name.clone());
        }
        let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        index.norms = lengths
            .iter()
            .map(|length| K1 * (1.0 - B + B * if mean > 0.0 { length / mean } else { 0.0 }))
            .collect();
        index
    }

    fn add(&mut self, token: &str, document: usize, weight: f64) {
        let document = u32::try_from(document).unwrap_or(u32::MAX);
        let posting = Posting { document, frequency: weight };
        match self.postings.get_mut(token) {
            None => {
                self.postings.insert(token.to_owned(), vec![posting]);
            }
            Some(postings) => match postings.last_mut() {
                Some(last) if last.document == document => last.frequency += weight,
                _ => postings.push(posting),
            },
        }
    }

    /// At most `limit` matching documents, the best first, equal scores by name.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Match> {
        // The words stay in the order of the query, so that sums are deterministic.
        let mut wanted: Vec<(String, f64)> = Vec::new();
        tokens::each_word(query, |token| match wanted.iter_mut().find(|(known, _)| known == token) {
            Some((_, times)) => *times += 1.0,
            None => wanted.push((token.to_owned(), 1.0)),
        });
        let mut scores = vec![0.0_f64; self.names.len()];
        let all = self.names.len() as f64;
        for (token, times) in &wanted {
            let Some(postings) = self.postings.get(token) else { continue };
            let holding = postings.len() as f64;
            let idf = (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln();
            for posting in postings {
                let at = posting.document as usize;
                let frequency = posting.frequency;
                scores[at] += times * idf * (frequency * (K1 + 1.0) / (frequency + self.norms[at]) + DELTA);
            }
        }
        let better = |a: &Match, b: &Match| {
            b.score.total_cmp(&a.score).then_with(|| self.names[a.document].cmp(&self.names[b.document]))
        };
        if limit == 0 {
            return Vec::new();
        }
        // From time to time only the best are kept, and later candidates below the worst of them are skipped.
        let room = limit.saturating_mul(2).saturating_add(ROOM);
        let (mut found, mut least) = (Vec::new(), 0.0);
        for (document, score) in scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0) {
            if score < least {
                continue;
            }
            found.push(Match { document, score });
            if found.len() == room {
                least = found.select_nth_unstable_by(limit - 1, better).1.score;
                found.truncate(limit);
            }
        }
        if found.len() > limit {
            found.select_nth_unstable_by(limit - 1, better);
            found.truncate(limit);
        }
        found.sort_by(better);
        found
    }
}

impl ToolDocument {
    fn each_field(&self, mut take: impl FnMut(&str, f64)) {
        take(&self.name, 6.0);
        take(&self.label, 4.0);
        if let Some(name) = &self.mcp_tool_name {
            take(name, 4.0);
        }
        if let Some(name) = &self.server_name {
            take(name, 2.0);
        }
        take(&self.summary, 2.0);
        self.schema_keys.iter().for_each(|key| take(key, 1.0));
    }
}
