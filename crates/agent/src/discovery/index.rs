//! Ranks tools by how well their words fit a query: BM25 with the δ of BM25+, over one weighted term
//! frequency. Pure; the same documents and query give the same answer to the bit.

use std::collections::HashMap;

use super::tokens;

const K1: f64 = 1.2;
const B: f64 = 0.75;
const DELTA: f64 = 1.0;

/// What the index knows of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolDocument {
    /// The name that calls it; weight 6.
    pub name: String,
    /// What people call it; weight 4.
    pub label: String,
    /// What it is for, in at most [`SUMMARY`] characters; weight 2.
    pub summary: String,
    /// Where it comes from; not searched.
    pub source: ToolSource,
    /// The server it belongs to; weight 2.
    pub server_name: Option<String>,
    /// Its name there; weight 4.
    pub mcp_tool_name: Option<String>,
    /// Names of its parameters; weight 1.
    pub schema_keys: Vec<String>,
}

/// So many more than twice the limit are held at once.
const ROOM: usize = 64;

/// Characters of a description that count.
pub const SUMMARY: usize = 200;

/// Where a tool comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolSource {
    /// Pilcrow's own.
    #[default]
    Builtin,
    /// A configured MCP server's.
    Mcp,
    /// An extension's.
    Extension,
    /// An embedding program's.
    Custom,
}

/// A tool that fits a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// Where its document stood, from 0.
    pub document: usize,
    /// Above 0; comparable within one answer only.
    pub score: f64,
}

/// The documents' words, ready to be asked.
#[derive(Debug, Default)]
pub struct ToolIndex {
    names: Vec<String>,
    /// Of each document: k1 × (1 − b + b × length / mean length).
    norms: Vec<f64>,
    postings: HashMap<String, Vec<Posting>>,
}

#[derive(Debug)]
struct Posting {
    document: u32,
    frequency: f64,
}

impl ToolIndex {
    /// Takes the documents in; the time is linear in their text.
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

    /// At most `limit` documents that hold a word of `query`, the best first, those of one score by name.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Match> {
        // In the order of the query, so that sums are the same every time.
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
        // Now and then only the best are kept; what is worse than the least of them is not looked at any more.
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
